from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from curator.ledger import export
from curator.ledger.book import Book, Place, follow
from curator.ledger.chain import GENESIS, Entry, canonical_json
from curator.ledger.datasets_and_runs import DatasetStatus, RunState
from curator.ledger.entries import StatusSet, encode
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.memory import MemoryLedger
from curator.ledger.problems import ChainBroken
from tests.contract.ledger_values import SETUP, opening, registration
from tests.fakes.clock import FakeClock


@pytest.fixture
def lines() -> list[str]:
    ledger = MemoryLedger(FakeClock())
    ledger.register_dataset(registration())
    ledger.register_dataset(registration("unused"))
    ledger.open_run(opening("r", 100, setup=SETUP), "h")
    ledger.begin_setup("r", "h", 1)
    ledger.advance_mark("r", "h", 1, 40)
    ledger.close_run("r", "h", 1, 33, "done")
    ledger.open_run(opening("s", 50), "h")
    ledger.advance_mark("s", "h", 1, 20)
    return list(export_jsonl(ledger))


def resealed(lines: list[str], change: dict[int, dict[str, Any]]) -> list[str]:
    """The export of somebody who edits a body and computes all the digests again."""
    head, sealed = (0, GENESIS), []
    for line in lines[1:-1]:
        entry = Entry(**json.loads(line))
        body = canonical_json({**json.loads(entry.body), **change.get(entry.seq, {})})
        new = Entry.following(head, entry.at, entry.kind, body)
        head = (new.seq, new.digest)
        sealed.append(canonical_json(new._asdict()))
    last = canonical_json({**json.loads(lines[-1]), "head": list(head)})
    return [lines[0], *sealed, last]


def test_an_export_holds_by_itself(lines: list[str]) -> None:
    unused = next(totals for totals in verify_export(lines).totals if totals.dataset == "unused")
    used = next(totals for totals in verify_export(lines).totals if totals.dataset == "d")
    assert unused.spent_epsilon == unused.second_spent_epsilon == 0.0
    assert used.spent_epsilon < used.reserved_epsilon
    assert used.second_spent_epsilon == pytest.approx(used.spent_epsilon, rel=3e-3)
    assert used.second_spent_epsilon <= used.spent_epsilon * (1 + 1e-6)


def test_the_head_is_that_of_the_last_entry(lines: list[str]) -> None:
    last = Entry(**json.loads(lines[-2]))
    assert verify_export(lines).head == (last.seq, last.digest)


def test_resealing_without_a_change_is_the_identity(lines: list[str]) -> None:
    assert resealed(lines, {}) == lines


def test_a_changed_missing_or_moved_line_shows(lines: list[str]) -> None:
    for i in range(len(lines)):
        with pytest.raises(ChainBroken):
            verify_export([*lines[:i], *lines[i + 1 :]])
    with pytest.raises(ChainBroken):
        verify_export([lines[0], lines[2], lines[1], *lines[3:]])
    with pytest.raises(ChainBroken):
        verify_export([line.replace("done", "gone") for line in lines])
    for broken in ([], ["{}"], ["{}", "{}"], [*lines, "{"]):
        with pytest.raises(ChainBroken):
            verify_export(broken)


def test_a_cut_export_shows_even_with_a_new_last_line(lines: list[str]) -> None:
    with pytest.raises(ChainBroken, match="head"):
        verify_export([*lines[:-2], lines[-1]])


@pytest.mark.parametrize(
    "change",
    [
        {6: {"used": 0}},  # a smaller count closes the run cheaper
        {8: {"used": 1}},
        {3: {"step": ["1"] * 23}},  # a cheaper step
        {3: {"step_event_json": '{"event":"none"}'}},
        {1: {"epsilon": 9.0}},  # a larger cap
    ],
)
def test_a_resealed_lie_shows(lines: list[str], change: dict[int, dict[str, Any]]) -> None:
    with pytest.raises(ChainBroken):
        verify_export(resealed(lines, change))


@pytest.mark.parametrize(
    ("version", "is_known"),
    [("1", False), ("2", True), ("3", True), ("4", True), ("5", False)],
)
def test_exports_of_before_runs_were_relinquished_are_read(
    lines: list[str], version: str, is_known: bool
) -> None:
    first = lines[0].replace("export-4", f"export-{version}")
    if is_known:
        assert verify_export([first, *lines[1:]]) == verify_export(lines)
        return
    with pytest.raises(ChainBroken, match="does not know the export's format"):
        verify_export([first, *lines[1:]])


def test_the_second_accountant_has_a_say(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "second_epsilon", lambda rule, used: 100.0)
    with pytest.raises(ChainBroken, match="second accountant"):
        verify_export(lines)


def test_an_export_and_its_check_hold_a_line_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, read = MemoryLedger(FakeClock()), [0]
    ledger.register_dataset(registration())
    for number in range(50):
        ledger.open_run(opening(f"r{number}", 1), "h")
        ledger.close_run(f"r{number}", "h", 1, 0, "done")
    entries = list(ledger.entries())

    def told() -> Iterator[Entry]:
        for read[0], entry in enumerate(entries, 1):
            yield entry

    monkeypatch.setattr(ledger, "entries", told)
    for number, _ in enumerate(export_jsonl(ledger)):
        assert read[0] == min(number, len(entries))
    applied, apply = [0], Book.apply

    def counted(book: Book, *event: Any) -> Any:
        applied[0] += 1
        assert len(book.runs) + len(book.closed) <= 1
        return apply(book, *event)

    def handed() -> Iterator[str]:
        for number, line in enumerate(export_jsonl(ledger)):
            assert applied[0] >= 2 * number - 3  # once by the export, once by its check
            yield line

    monkeypatch.setattr(Book, "apply", counted)
    assert len(verify_export(handed()).totals) == 1


def test_a_chain_that_says_falsely_that_nothing_was_asked_is_broken(lines: list[str]) -> None:
    entries = [Entry(**json.loads(line)) for line in lines[1:-1]]
    place = Place()
    opened = [state for _, state in follow(entries, place) if isinstance(state, RunState)]
    name, head = opened[0].dataset, place.head
    for asked in (True, False):
        erased = StatusSet(dataset=name, status=DatasetStatus.ERASED, reason="x", asked=asked)
        told = [*entries, Entry.following(head, "later", *encode(erased))]
        if asked:
            assert '"asked"' not in told[-1].body  # as every version wrote it
            deque(follow(told, Place()), maxlen=0)
            continue
        with pytest.raises(ChainBroken, match="a run was opened on this data set"):
            deque(follow(told, Place()), maxlen=0)
