from __future__ import annotations

import pytest

from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.errors import UnknownDataset
from curator.ledger import entries
from curator.ledger.book import Book, replay
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.problems import ChainBroken, LedgerConflict
from curator.ledger.shared import check_counted
from curator.privacy.budget import Budget
from tests.contract.ledger_values import BUDGET, STEP, most_steps, opening, registration


def written(*happenings: entries.Happening) -> list[Entry]:
    head, lines = (0, GENESIS), []
    for happening in happenings:
        lines.append(Entry.following(head, "now", *entries.encode(happening)))
        head = (lines[-1].seq, lines[-1].digest)
    return lines


REGISTERED = entries.DatasetRegistered(
    registration=registration(), rule=BudgetRule.register(BUDGET)
)


def test_a_replay_makes_the_same_book() -> None:
    book = Book()
    happenings: list[entries.Happening] = [
        REGISTERED,
        entries.RunOpened(opening=opening(), holder="h"),
        entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=5),
    ]
    for happening in happenings:
        book.apply(happening, "now")
    lines = written(*happenings)
    assert replay(lines) == (book, (3, lines[-1].digest))


@pytest.mark.parametrize(
    "impossible",
    [
        REGISTERED,
        entries.RunOpened(opening=opening(num_steps=most_steps() + 1), holder="h"),
        entries.RunOpened(opening=opening(dataset="nobody"), holder="h"),
        entries.RunAdopted(run_id="x", holder="h"),
    ],
)
def test_a_replay_refuses_what_a_ledger_would_have_refused(impossible: entries.Happening) -> None:
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


def test_a_closed_run_is_counted_once_and_a_database_must_count_the_same() -> None:
    book, _ = replay(
        written(
            REGISTERED,
            entries.RunOpened(opening=opening(), holder="h"),
            entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=5),
            entries.RunClosed(run_id="r", holder="h", epoch=1, used=4, reason=""),
        )
    )
    assert book.account("d").spent == book.account("d").reserved == event_cost(STEP) * 4
    counted = Book(datasets=book.datasets)
    counted.settle(("d", "ann"), [(event_cost(STEP), 3)])
    with pytest.raises(ChainBroken, match="closed runs of data set 'd'"):
        check_counted(book, counted, "d")
    counted.settle(("d", "ann"), [(event_cost(STEP), 1)])
    check_counted(book, counted, "d")
