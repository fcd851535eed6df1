"""A ledger as lines of JSON that anyone can check without the ledger, and that check.

The first line says what follows, the last one says what the entries amount to and where the
chain ends, so that a shortened file is noticed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn, final

from curator.accounting.cost import Cost, event_cost
from curator.accounting.event_text import event_from_text
from curator.accounting.orders import ORDERS
from curator.accounting.second_opinion import second_epsilon
from curator.ledger.book import Book, Place, follow
from curator.ledger.chain import Entry, canonical_json
from curator.ledger.datasets_and_runs import ACCOUNTANT, RunState
from curator.ledger.ledger import Ledger
from curator.ledger.problems import ChainBroken

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedExport:
    """An export that holds: where its chain ends, and the totals of each data set by name.

    The book is what the entries come to, with the runs that are open at their end.
    """

    head: tuple[int, str]
    totals: tuple[CheckedTotals, ...]
    book: Book


def export_jsonl(ledger: Ledger) -> Iterator[str]:
    """Return the lines of a self-contained export, each without its line end, as they are read.

    Raises:
        ChainBroken: If the ledger's own entries do not hold; the last line, without which an export
            is none, was not returned then.
    """
    place = Place()
    yield canonical_json(_first_line(FORMAT))
    for entry, _ in follow(ledger.entries(), place):
        yield canonical_json(entry._asdict())
    yield canonical_json({"head": list(place.head), "statements": _statements(place.book)})


def _first_line(name: str) -> dict[str, Any]:
    return {"format": name, "accountant": ACCOUNTANT, "orders": list(ORDERS)}


def verify_export(
    lines: Iterable[str], closed: Callable[[RunState], None] | None = None
) -> CheckedExport:
    """Check an export with nothing but itself.

    The chain must hold; replaying it must be possible under the same rule; every epsilon must be
    exactly the one that the integer costs give; each cost must be that of its event; and the
    second accountant must agree within 3e-3 and not find more than the ledger charged.

    Args:
        lines: The export's, without or with their line ends.
        closed: Is given each closed run in the order of closing, before the whole is known to hold.

    Returns:
        The head, which is to be compared with one that is known, and the totals.

    Raises:
        ChainBroken: If anything does not hold; the text says what.
        UnicodeDecodeError: If the lines are of a file that is no text.
    """
    try:
        place, uses, told = _read(_Lines(lines), closed)
    except UnicodeDecodeError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        msg = "the export is not whole: it ends early, or is not of lines of JSON"
        raise ChainBroken(msg) from error
    book = place.book
    if told != _statements(book):
        _fail("an exported epsilon is not the one that the integer costs give")
    for run in book.runs.values():
        uses.count(run)
    totals = tuple(_second_opinion(book, name, uses) for name in sorted(book.datasets))
    return CheckedExport(head=place.head, totals=totals, book=book)


def _read(export: _Lines, closed: Callable[[RunState], None] | None) -> tuple[Place, _Uses, object]:
    """Return where the entries end, the uses of closed runs, and what the last line states.

    Raises:
        ChainBroken: If the entries do not hold, or are not those that the last line speaks of.
    """
    place, uses = Place(), _Uses()
    if json.loads(export.first) not in [_first_line(known) for known in _KNOWN]:
        _fail("this version does not know the export's format, accountant or orders")
    for _, state in follow(export.entries(), place):
        if isinstance(state, RunState) and not state.is_open:
            uses.count(state)
            if closed is not None:
                closed(state)
    last = json.loads(export.last)
    if last["head"] != list(place.head):
        _fail("the export ends before or after the head that it names")
    return place, uses, last["statements"]


@final
class _Lines:
    """An export, read a line at a time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.first = next(self._lines, "")
        self.last = ""

    def entries(self) -> Iterator[Entry]:
        """Return the entries of all lines between the first and the last, which is kept."""
        for line in self._lines:
            if self.last:
                yield Entry(**json.loads(self.last))
            self.last = line


@final
class _Uses:
    """How often each event was used, by data set; the costs of its runs are checked."""

    def __init__(self) -> None:
        self.of: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(self, run: RunState) -> None:
        """Count a run as it is at the end.

        Raises:
            ChainBroken: If a cost is not that of its event.
        """
        uses = zip((run.setup_event_json, run.step_event_json), run.spent_uses, strict=True)
        for text, (cost, times) in uses:
            try:
                is_same = _is_cost_of(cost, text)
            except ValueError:
                _fail(f"run {run.run_id!r} has an event that this version cannot read")
            if not is_same:
                _fail(f"a cost of run {run.run_id!r} is not that of its event")
            self.of[run.dataset][text] += times


def _statements(book: Book) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in sorted(book.datasets):
        statement = book.statement(name)
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


@lru_cache(maxsize=4096)
def _is_cost_of(declared: Cost, text: str) -> bool:
    return _close(declared, event_cost(event_from_text(text)))


def _close(a: Cost, b: Cost) -> bool:
    return all(
        x == y if x is None or y is None else abs(x - y) * _SAME_COST <= max(x, y) + _SAME_COST
        for x, y in zip(a.units, b.units, strict=True)
    )


def _second_opinion(book: Book, name: str, uses: _Uses) -> CheckedTotals:
    statement, rule = book.statement(name), book.dataset(name).rule
    by_runs = rule.spent_epsilon(book.total(name).spent.cost)
    used = [(event_from_text(text), times) for text, times in uses.of[name].items()]
    second = second_epsilon(rule, used)
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


def _fail(what: str) -> NoReturn:
    raise ChainBroken(what)
