"""Which runs a caller sees: all open ones, the last closed ones, and how many there are."""

from __future__ import annotations

import pytest

from curator.ledger.memory import MemoryLedger
from curator.overview import queries
from curator.overview.queries import list_runs, open_runs
from curator.service.close_run import close_run
from curator.service.context import Context
from tests.fakes.curator import ALICE, BOB, STEWARD, context, memory_ledger, opened


def five_runs() -> tuple[Context, MemoryLedger, list[str]]:
    """Runs of alice, of which the first and the last are open, and one of bob."""
    ledger = memory_ledger()
    ctx = context(ledger)
    ids = [opened(ctx, key=key * 16, num_steps=1).run_id for key in "abcd"]
    ids.append(opened(ctx, key="e" * 16, caller=BOB, num_steps=1).run_id)
    for run_id in ids[1:3]:
        close_run(ctx, ALICE, run_id)
    return ctx, ledger, ids


def test_no_open_run_is_left_out_and_closed_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "MOST_CLOSED", 1)
    ctx, _, ids = five_runs()
    runs = list_runs(ctx, ALICE)
    assert [run.run_id for run in runs.open] == [ids[0], ids[3]]
    assert [run.run_id for run in runs.closed] == [ids[2]]
    assert runs.num_closed == 2
    assert [run.run_id for run in list_runs(ctx, STEWARD).open] == [ids[0], ids[3], ids[4]]
    assert [run.run_id for run in open_runs(ctx, STEWARD, "small")] == [ids[0], ids[3], ids[4]]
    assert list_runs(ctx, BOB).num_closed == 0


def test_a_run_that_closes_between_two_questions_is_shown_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx, ledger, ids = five_runs()
    before = ledger.open_runs(analyst=ALICE.name)
    close_run(ctx, ALICE, ids[0])
    monkeypatch.setattr(ledger, "open_runs", lambda **_: before)
    runs = list_runs(ctx, ALICE)
    assert [run.run_id for run in runs.open] == [ids[3]]
    assert [run.run_id for run in runs.closed] == [ids[2], ids[1], ids[0]]
