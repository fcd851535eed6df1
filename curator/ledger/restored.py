"""Go on with an older copy of a ledger: all that it may have forgotten is counted as spent.

Nothing that was delivered was more than what was reserved when the anchor was last written. So the
difference between that and what the copy says was spent is added, for ever and on record; open
runs are closed where the copy has their marks; data sets that the copy does not know come back
with their budgets; caps that were lowered and data sets that were paused or retired stay so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from curator.accounting.cost import Cost
from curator.errors import UnknownDataset
from curator.ledger.anchor import HeadAnchor, Note
from curator.ledger.entries import CapLowered, SpendAdded, StatusSet, registration_from
from curator.ledger.ledger import Ledger
from curator.ledger.problems import LedgerConflict
from curator.ledger.records import DatasetState, DatasetStatus
from curator.ledger.transitions import FOLLOWERS

CLOSED_AS_RESTORED: Final = "closed: an older copy of the ledger was restored"
_HOLDER: Final = "accept-restored"


def accept_restored(ledger: Ledger, anchor: HeadAnchor, reason: str) -> tuple[str, ...]:
    """Count the largest possible loss as spent, and let the anchor know the ledger as it is.

    Args:
        ledger: The restored ledger, opened for writing without its anchor.
        anchor: What is known of the ledger that was lost.
        reason: By the steward, for the record.

    Returns:
        One line for each data set: what was added.

    Raises:
        LedgerConflict: If nothing is missing from this ledger.
    """
    known = anchor.read()
    seq, digest = known.head
    if seq == 0 or any(entry.digest == digest for entry in ledger.entries(after=seq - 1)):
        msg = "this ledger has all that was known of it; there is nothing to accept"
        raise LedgerConflict(msg)
    for run in ledger.open_runs():
        state = ledger.adopt_run(run.run_id, _HOLDER)
        ledger.close_run(run.run_id, _HOLDER, state.epoch, state.used, CLOSED_AS_RESTORED)
    lines = tuple(_count(ledger, name, known, reason) for name in sorted(known.datasets))
    note = Note(head=ledger.head(), datasets=known.datasets)
    anchor.replace(note)
    return lines


def _count(ledger: Ledger, name: str, known: Note, reason: str) -> str:
    value = known.datasets[name]
    state = _registered(ledger, name, value)
    before = ledger.statement(name).spent_epsilon
    missing = Cost.from_json(value["reserved"]).beyond(ledger.account(name).spent)
    ledger.decide(SpendAdded(dataset=name, cost=missing, reason=reason))
    for decision in _lost_decisions(state, value, reason):
        ledger.decide(decision)
    after = ledger.statement(name).spent_epsilon
    return f"{name}: epsilon spent {before:.6f} in the copy, {after:.6f} now"


def _registered(ledger: Ledger, name: str, value: dict[str, Any]) -> DatasetState:
    try:
        return ledger.dataset(name)
    except UnknownDataset:
        registration = registration_from(value["registration"])
        return ledger.register_dataset(registration, value.get("favourite"))


def _lost_decisions(
    state: DatasetState, value: dict[str, Any], reason: str
) -> Iterator[CapLowered | StatusSet]:
    name = state.registration.name
    if value["cap"] < state.cap:
        yield CapLowered(dataset=name, epsilon=value["cap"], reason=reason)
    status = DatasetStatus(value["status"])
    if status in FOLLOWERS[state.status] and status is not DatasetStatus.ACTIVE:
        yield StatusSet(dataset=name, status=status, reason=reason)
