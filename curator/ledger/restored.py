"""Go on with an older copy of a ledger: all that it may have forgotten is counted as spent.

Nothing that was delivered was more than what was reserved when the anchor was last written. So the
difference between that and what the copy says was spent is added, for ever and on record; open
runs are closed where the copy has their marks; data sets that the copy does not know come back
with their budgets; caps that were lowered and data sets that were paused or retired stay so.
Each replica that said in the database what it misses is counted in the same way. Where others went
on without what is missing, it comes on top of what they spent, not in place of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from curator.accounting.cost import Cost
from curator.errors import UnknownDataset
from curator.ledger.anchor import HeadAnchor, Note
from curator.ledger.book import Book, Place, follow
from curator.ledger.datasets_and_runs import NOTHING, DatasetState, DatasetStatus
from curator.ledger.entries import CapLowered, SpendAdded, StatusSet, registration_from
from curator.ledger.problems import LedgerConflict
from curator.ledger.sql_ledger import SqlLedger
from curator.ledger.transitions import FOLLOWERS

CLOSED_AS_RESTORED: Final = "closed: an older copy of the ledger was restored"
_HOLDER: Final = "accept-restored"


def accept_restored(ledger: SqlLedger, anchor: HeadAnchor, reason: str) -> tuple[str, ...]:
    """Count the largest possible loss as spent, and let the anchor know the ledger as it is.

    Args:
        ledger: The restored ledger, opened for writing without its anchor.
        anchor: What is known of the ledger that was lost; with what other replicas objected to.
        reason: By the steward, for the record.

    Returns:
        One line for each data set: what was added.

    Raises:
        LedgerConflict: If nothing is missing from this ledger.
    """
    known = (*_missing(ledger, anchor.read()), *ledger.objections())
    if not known:
        msg = "this ledger has all that was known of it; there is nothing to accept"
        raise LedgerConflict(msg)
    for run in ledger.open_runs():
        state = ledger.adopt_run(run.run_id, _HOLDER)
        ledger.close_run(run.run_id, _HOLDER, state.epoch, state.used, CLOSED_AS_RESTORED)
    common = [(note, _common(ledger, note)) for note in known]
    names = sorted({name for note in known for name in note.datasets})
    lines = tuple(_count(ledger, name, common, reason) for name in names)
    anchor.replace(ledger.accepted())
    return lines


def _missing(ledger: SqlLedger, known: Note) -> Iterator[Note]:
    seq, digest = known.head
    if seq and next((entry.digest for entry in ledger.entries(after=seq - 1)), "") != digest:
        yield known


def _common(ledger: SqlLedger, known: Note) -> Book:
    """Return what a ledger and the one that was lost have in common."""
    last = ledger.went_on_after(known)
    entries = ledger.entries()
    place = Place()
    deque(follow(entries if last is None else islice(entries, last), place), maxlen=0)
    return place.book


def _count(ledger: SqlLedger, name: str, known: Iterable[tuple[Note, Book]], reason: str) -> str:
    values = [(note.datasets[name], book) for note, book in known if name in note.datasets]
    _registered(ledger, name, values[0][0])
    before = ledger.statement(name).spent_epsilon
    for value, book in values:
        spent, added = NOTHING, ledger.dataset(name).added
        if name in book.datasets:
            spent, added = book.account(name).spent, added.beyond(book.dataset(name).added)
        missing = Cost.from_json(value["reserved"]).beyond(spent + added)
        ledger.decide(SpendAdded(dataset=name, cost=missing, reason=reason))
        for decision in _lost_decisions(ledger.dataset(name), value, reason):
            ledger.decide(decision)
    after = ledger.statement(name).spent_epsilon
    return f"{name}: epsilon spent {before:.6f} in the copy, {after:.6f} now"


def _registered(ledger: SqlLedger, name: str, value: dict[str, Any]) -> None:
    try:
        ledger.dataset(name)
    except UnknownDataset:
        registration = registration_from(value["registration"])
        ledger.register_dataset(registration, value.get("favourite"))


def _lost_decisions(
    state: DatasetState, value: dict[str, Any], reason: str
) -> Iterator[CapLowered | StatusSet]:
    name = state.registration.name
    if value["cap"] < state.cap:
        yield CapLowered(dataset=name, epsilon=value["cap"], reason=reason)
    status = DatasetStatus(value["status"])
    if status in FOLLOWERS[state.status] and status is not DatasetStatus.ACTIVE:
        yield StatusSet(dataset=name, status=status, reason=reason)
