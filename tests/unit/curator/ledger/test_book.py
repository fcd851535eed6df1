from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.errors import UnknownDataset
from curator.ledger import entries
from curator.ledger.book import Book, Place, follow
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.problems import ChainBroken, LedgerConflict
from curator.ledger.totals import EVERYBODY, Tally, Totals
from curator.ledger.verify import check_shown
from curator.privacy.budget import Budget
from tests.contract.ledger_values import BUDGET, STEP, most_steps, opening, registration


def written(*events_: entries.LedgerEvent) -> list[Entry]:
    head, lines = (0, GENESIS), []
    for event in events_:
        lines.append(Entry.following(head, "now", *entries.encode(event)))
        head = (lines[-1].seq, lines[-1].digest)
    return lines


def replay(lines: list[Entry]) -> Book:
    place = Place()
    for _ in follow(lines, place):
        assert not place.book.closed
    return place.book


REGISTERED = entries.DatasetRegistered(
    registration=registration(), rule=BudgetRule.register(BUDGET)
)


def test_a_replay_makes_the_same_book() -> None:
    book = Book()
    events_: list[entries.LedgerEvent] = [
        REGISTERED,
        entries.RunOpened(opening=opening(), holder="h"),
        entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=5),
    ]
    for event in events_:
        book.apply(event, "now")
    assert replay(written(*events_)) == book


@pytest.mark.parametrize(
    "impossible",
    [
        REGISTERED,
        entries.RunOpened(opening=opening(num_steps=most_steps() + 1), holder="h"),
        entries.RunOpened(opening=opening(dataset="nobody"), holder="h"),
        entries.RunAdopted(run_id="x", holder="h"),
    ],
)
def test_a_replay_refuses_what_a_ledger_would_have_refused(impossible: entries.LedgerEvent) -> None:
    with pytest.raises(ChainBroken, match="entry 2 could not"):
        replay(written(REGISTERED, impossible))


def test_a_rule_for_another_budget_is_refused() -> None:
    other = BudgetRule.register(Budget(epsilon=20.0, delta=1e-6))
    with pytest.raises(LedgerConflict):
        Book().apply(entries.DatasetRegistered(registration=registration(), rule=other), "now")


def test_a_gap_is_named() -> None:
    lines = written(REGISTERED, entries.RunOpened(opening=opening(), holder="h"))
    with pytest.raises(ChainBroken, match="entry 2 after 0"):
        replay(lines[1:])


def test_an_empty_book_knows_nothing() -> None:
    with pytest.raises(UnknownDataset):
        Book().account("d")


CLOSING: tuple[entries.LedgerEvent, ...] = (
    REGISTERED,
    entries.RunOpened(opening=opening(), holder="h"),
    entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=5),
    entries.RunClosed(run_id="r", holder="h", epoch=1, used=4, reason=""),
)


def test_a_closed_run_is_counted_and_not_kept() -> None:
    book = replay(written(*CLOSING))
    assert book.account("d").spent == book.account("d").reserved == event_cost(STEP) * 4
    assert book.total("d") == book.total("d", "ann")
    assert book.total("d").num_closed == 1
    assert not book.runs


@pytest.mark.parametrize(
    "impossible",
    [
        entries.RunOpened(opening=opening(), holder="h"),
        entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=6),
        entries.RunClosed(run_id="r", holder="h", epoch=1, used=4, reason=""),
    ],
)
def test_a_run_that_was_closed_does_not_come_back(impossible: entries.LedgerEvent) -> None:
    with pytest.raises(ChainBroken, match="entry 5 could not"):
        replay(written(*CLOSING, impossible))


def shown(lines: list[Entry]) -> Book:
    """What a ledger shows beside its runs, none of which is from before the first entry."""
    return replace(replay(lines), runs={})


def run_of(**changes: Any) -> RunState:
    book = replay(written(*CLOSING[:3]))
    return replace(book.run("r"), **changes)


@pytest.mark.parametrize(
    ("runs", "named"),
    [
        ([], "the run 'r' is shown"),
        ([run_of(used=4)], "the run 'r' is shown"),
        ([run_of(), run_of(run_id="s")], "the run 's' is shown"),
        ([run_of(run_id="s"), run_of()], "the run 'r' is shown"),
    ],
)
def test_runs_that_are_shown_otherwise_are_named(runs: list[RunState], named: str) -> None:
    lines = written(*CLOSING[:3])
    check_shown(lines, shown(lines), iter([run_of()]), Place())
    with pytest.raises(ChainBroken, match=named):
        check_shown(lines, shown(lines), iter(runs), Place())


@pytest.mark.parametrize("change", ["spent", "reserved", "num_closed", "missing", "extra"])
@pytest.mark.parametrize("whose", [EVERYBODY, "ann"])
def test_totals_that_are_shown_otherwise_are_refused(change: str, whose: str) -> None:
    lines = written(*CLOSING[:3])
    book, one = shown(lines), Tally().plus(event_cost(STEP), 1)
    if change == "missing":
        del book.totals["d", whose]
    elif change == "extra":
        book.totals["d", whose + "x"] = Totals()
    else:
        other: Any = 1 if change == "num_closed" else one
        book.totals["d", whose] = book.totals["d", whose]._replace(**{change: other})
    with pytest.raises(ChainBroken, match="runs of data set 'd' are counted"):
        check_shown(lines, book, iter([run_of()]), Place())
