"""A ledger as lines of JSON that anyone can check without the ledger, and that check.

The first line says what follows, the last one says what the entries amount to and where the
chain ends, so that a shortened file is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final, NoReturn

from curator.accounting.cost import Cost, event_cost, total_cost
from curator.accounting.event_text import event_from_text
from curator.accounting.orders import ORDERS
from curator.accounting.second_opinion import second_epsilon
from curator.ledger.book import Book, replay
from curator.ledger.chain import Entry, canonical_json
from curator.ledger.ledger import Ledger
from curator.ledger.problems import ChainBroken
from curator.ledger.records import ACCOUNTANT, RunState
from curator.ledger.shared import statement_of
from curator.privacy.event import PrivacyEvent

FORMAT: Final = "weir-ledger-export-4"
_KNOWN: Final = (
    FORMAT,
    "weir-ledger-export-3",  # which did not say of an erased data set that no run was opened
    "weir-ledger-export-2",  # nor had it runs that were relinquished
)
_NEVER_ABOVE: Final = 1e-5
_AGREEMENT: Final = 3e-3
_ROUNDING: Final = 1e-6  # absolute, in epsilon
_SAME_COST: Final = 10**9  # costs recomputed on another machine agree to one part in this


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedTotals:
    """One data set's totals as exported, and what its runs spent by the second accountant."""

    dataset: str
    spent_epsilon: float
    reserved_epsilon: float
    second_spent_epsilon: float


def export_jsonl(ledger: Ledger) -> Iterator[str]:
    """Return the lines of a self-contained export, each without its line end.

    Raises:
        ChainBroken: If the ledger's own entries do not hold.
    """
    lines = list(ledger.entries())
    book, head = replay(lines)
    yield canonical_json(_first_line(FORMAT))
    for entry in lines:
        yield canonical_json(asdict(entry))
    yield canonical_json({"head": list(head), "statements": _statements(book)})


def _first_line(name: str) -> dict[str, Any]:
    return {"format": name, "accountant": ACCOUNTANT, "orders": list(ORDERS)}


def verify_export(lines: Iterable[str]) -> tuple[CheckedTotals, ...]:
    """Check an export with nothing but itself.

    The chain must hold; replaying it must be possible under the same rule; every epsilon must be
    exactly the one that the integer costs give; each cost must be that of its event; and the
    second accountant must agree within 3e-3 and not find more than the ledger charged.

    Args:
        lines: The lines of the export.

    Returns:
        The totals of each data set.

    Raises:
        ChainBroken: If anything does not hold; the text says what.
    """
    try:
        first, *middle, last = (json.loads(line) for line in lines)
        if first not in [_first_line(known) for known in _KNOWN]:
            _fail("this version does not know the export's format, accountant or orders")
        book, head = replay(Entry(**value) for value in middle)
        told = last["statements"]
        if last["head"] != list(head):
            _fail("the export ends before or after the head that it names")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        msg = "the export is not whole: it ends early, or is not of lines of JSON"
        raise ChainBroken(msg) from error
    if told != _statements(book):
        _fail("an exported epsilon is not the one that the integer costs give")
    for run in book.runs.values():
        _check_costs(run)
    return tuple(_second_opinion(book, name) for name in sorted(book.datasets))


def _statements(book: Book) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in sorted(book.datasets):
        statement = statement_of(book, name)
        told[name] = {
            "epsilon": statement.budget.epsilon,
            "delta": statement.budget.delta,
            "cap": statement.cap,
            "status": str(statement.status),
            "adjacency": str(statement.adjacency),
            "spent_epsilon": statement.spent_epsilon,
            "reserved_epsilon": statement.reserved_epsilon,
        }
    return told


def _check_costs(run: RunState) -> None:
    for declared, text in ((run.setup, run.setup_event_json), (run.step, run.step_event_json)):
        try:
            event = event_from_text(text)
        except ValueError:
            _fail(f"run {run.run_id!r} has an event that this version cannot read")
        if not _close(declared, event_cost(event)):
            _fail(f"a cost of run {run.run_id!r} is not that of its event")


def _close(a: Cost, b: Cost) -> bool:
    return all(
        x == y if x is None or y is None else abs(x - y) * _SAME_COST <= max(x, y) + _SAME_COST
        for x, y in zip(a.units, b.units, strict=True)
    )


def _second_opinion(book: Book, name: str) -> CheckedTotals:
    statement, rule = statement_of(book, name), book.dataset(name).rule
    runs = [run for run in book.runs.values() if run.dataset == name]
    by_runs = rule.spent_epsilon(total_cost(chain(*(run.spent_uses for run in runs))))
    second = second_epsilon(rule, _used(book, name))
    if second > by_runs * (1 + _NEVER_ABOVE) + _ROUNDING:
        _fail(f"the second accountant finds that {name!r} spent more than the ledger says")
    if by_runs > second * (1 + _AGREEMENT) + _ROUNDING:
        _fail(f"the second accountant finds that {name!r} spent less than the ledger says")
    return CheckedTotals(
        dataset=name,
        spent_epsilon=statement.spent_epsilon,
        reserved_epsilon=statement.reserved_epsilon,
        second_spent_epsilon=second,
    )


def _used(book: Book, name: str) -> Iterator[tuple[PrivacyEvent, int]]:
    for run in book.runs.values():
        if run.dataset == name:
            yield event_from_text(run.setup_event_json), int(run.setup_begun)
            yield event_from_text(run.step_event_json), run.used


def _fail(what: str) -> NoReturn:
    raise ChainBroken(what)
