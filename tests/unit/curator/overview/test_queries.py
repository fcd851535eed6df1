"""Which runs a caller sees: all open ones, the last closed ones, and how many there are."""

from __future__ import annotations

import pytest

from curator.ledger.memory import MemoryLedger
from curator.overview import queries
from curator.overview.queries import list_runs, open_runs
from curator.service.end_runs import close_run
from curator.service.service import Service
from tests.fakes.curator import ALICE, BOB, STEWARD, memory_ledger, opened, service


def five_runs() -> tuple[Service, MemoryLedger, list[str]]:
    """Runs of alice, of which the first and the last are open, and one of bob."""
    ledger = memory_ledger()
    ctx = service(ledger)
    ids = [opened(ctx, key=key * 16, num_steps=1).run_id for key in "abcd"]
    ids.append(opened(ctx, key="e" * 16, caller=BOB, num_steps=1).run_id)
    for run_id in ids[1:3]:
        close_run(ctx.runs, ALICE, run_id)
    return ctx, ledger, ids


def test_no_open_run_is_left_out_and_closed_ones_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queries, "MOST_CLOSED", 1)
    ctx, _, ids = five_runs()
    runs = list_runs(ctx.runs.ledger, ALICE)
    assert [run.run_id for run in runs.open] == [ids[0], ids[3]]
    assert [run.run_id for run in runs.closed] == [ids[2]]
    assert runs.num_closed == 2
    assert [run.run_id for run in list_runs(ctx.runs.ledger, STEWARD).open] == [
        ids[0],
        ids[3],
        ids[4],
    ]
    assert [run.run_id for run in open_runs(ctx.runs.ledger, STEWARD, "small")] == [
        ids[0],
        ids[3],
        ids[4],
    ]
    assert list_runs(ctx.runs.ledger, BOB).num_closed == 0


def test_a_run_that_closes_between_two_questions_is_shown_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx, ledger, ids = five_runs()
    before = ledger.open_runs(analyst=ALICE.name)
    close_run(ctx.runs, ALICE, ids[0])
    monkeypatch.setattr(ledger, "open_runs", lambda **_: before)
    runs = list_runs(ctx.runs.ledger, ALICE)
    assert [run.run_id for run in runs.open] == [ids[3]]
    assert [run.run_id for run in runs.closed] == [ids[2], ids[1], ids[0]]
