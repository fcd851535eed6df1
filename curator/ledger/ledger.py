"""What a ledger promises: nothing is used before it is written, and nothing used is un-spent.

Spent is the cost of every run up to its durable mark, with its setup once begun. Reserved is the
same with the whole declared cost of every open run. Both are running totals of integers that change
with the run, in one transaction with its entry; `verify` compares them with the sums over all runs.
So what one call does depends on how many runs are open, never on how many were closed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import Final, overload

from curator.accounting.cost import event_cost
from curator.accounting.event_text import event_from_text
from curator.ledger import entries as events
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.datasets_and_runs import (
    ACCOUNTANT,
    NOTHING,
    Account,
    DatasetRegistration,
    DatasetState,
    DatasetStatus,
    RunOpening,
    RunState,
    RunStatus,
    Spend,
    Statement,
)
from curator.ledger.problems import (
    ChainBroken,
    DatasetExists,
    HolderLost,
    LedgerConflict,
    LedgerFromTheFuture,
    LedgerLocked,
    RunExists,
)

__all__ = [
    "ACCOUNTANT",
    "NOTHING",
    "Account",
    "ChainBroken",
    "DatasetExists",
    "DatasetRegistration",
    "DatasetState",
    "DatasetStatus",
    "HolderLost",
    "Ledger",
    "LedgerConflict",
    "LedgerFromTheFuture",
    "LedgerLocked",
    "RunExists",
    "RunOpening",
    "RunState",
    "RunStatus",
    "Spend",
    "Statement",
]


ALL: Final = None
"""In the place of some analysts: all who ever had a run."""


class Ledger(ABC):
    """The durable account of every data set.

    All that can change it is one `LedgerEvent` at a time, appended by `_record`; the methods that
    change something only name the event. All of it that is shown of one data set is a `Book`.

    Every method may raise `LedgerUnavailable` (then nothing may be computed), and every method
    that names a data set or a run raises `UnknownDataset` or `UnknownRun` for one never written.
    Methods that take (holder, epoch) raise `RunClosed` for a closed run, else `HolderLost` when
    the run is held by another. All of them are atomic and safe to call from many threads.
    """

    @overload
    def _record(self, event: events.DatasetRegistered | events.Decision) -> DatasetState: ...
    @overload
    def _record(
        self, event: events.RunOpened | events.RunEvent, payload: bytes | None = None
    ) -> RunState: ...
    @abstractmethod
    def _record(
        self, event: events.LedgerEvent, payload: bytes | None = None
    ) -> DatasetState | RunState:
        """Append one event, and show what it makes of its data set or run, both or neither.

        The present mark again writes nothing. A payload is kept with the run.
        """

    @abstractmethod
    def _read(
        self, dataset: str, analysts: Collection[str] | None = (), *, with_runs: bool = False
    ) -> Book:
        """Return one data set with its totals and those of some analysts, off one snapshot.

        With its open runs, if they are asked for.
        """

    @abstractmethod
    def datasets(self) -> tuple[DatasetState, ...]:
        """Return all data sets by name."""

    @abstractmethod
    def run(self, run_id: str) -> RunState:
        """Return one run."""

    @abstractmethod
    def runs(self, dataset: str | None = None, analyst: str | None = None) -> Iterator[RunState]:
        """Return all runs in the order in which they were opened, a page in memory at a time."""

    @abstractmethod
    def open_runs(
        self, dataset: str | None = None, analyst: str | None = None
    ) -> tuple[RunState, ...]:
        """Return the open runs in the order in which they were opened."""

    @abstractmethod
    def latest_runs(
        self,
        at_most: int,
        analyst: str | None = None,
        status: RunStatus | None = None,
        before: str | None = None,
    ) -> tuple[RunState, ...]:
        """Return runs, the last opened first; of those opened before one if `before` names it."""

    @abstractmethod
    def num_closed(self, analyst: str | None = None) -> int:
        """Return how many closed runs there are."""

    @abstractmethod
    def setup_payload(self, run_id: str) -> bytes | None:
        """Return what `store_setup` kept, checked against its digest, or None."""

    @abstractmethod
    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Return the entries with a higher sequence number than `after`, in order."""

    @abstractmethod
    def head(self) -> tuple[int, str]:
        """Return the last entry's sequence number and digest; (0, genesis) when there is none."""

    @abstractmethod
    def verify(self) -> None:
        """Check the chain, and that all that is shown follows from it, else raise `ChainBroken`."""

    def register_dataset(
        self, registration: DatasetRegistration, favourite: float | None = None
    ) -> DatasetState:
        """Fix a data set's cap, relation and rule for ever; `DatasetExists` the second time.

        `favourite` is the order that the rule favours, by default what suits Gaussians best.
        """
        return self._record(events.DatasetRegistered.favouring(registration, favourite))

    def decide(self, decision: events.Decision) -> DatasetState:
        """Write what the steward decided about a data set.

        `LedgerConflict` if a cap would rise, or a retired data set would come back. What is spent
        stays spent: a cap below it blocks every further charge.
        """
        return self._record(decision)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """Reserve the whole declared cost; epoch 1.

        Else `RunExists`, `BudgetExhausted`, `AllotmentExhausted` for the analyst's own cap, or
        `DatasetPaused` or `DatasetRetired`.

        Raises:
            LedgerConflict: If a declared cost is not that of the event beside it.
        """
        for cost, text in (
            (opening.setup, opening.setup_event_json),
            (opening.step, opening.step_event_json),
        ):
            if cost != event_cost(event_from_text(text)):
                msg = "a declared cost is not the cost of the declared event"
                raise LedgerConflict(msg)
        return self._record(events.RunOpened(opening=opening, holder=holder))

    def adopt_run(self, run_id: str, holder: str) -> RunState:
        """Take a run over: the epoch rises, and everything up to the mark counts as answered."""
        return self._record(events.RunAdopted(run_id=run_id, holder=holder))

    def advance_mark(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """Count steps as used before they are.

        The mark never falls (`LedgerConflict`); the present mark again writes nothing; past the
        declared steps the answer is `RunClosed`. A setup with a cost must have begun before. What
        the steward decided since the opening holds as for `open_run`, of what is spent.
        """
        return self._record(
            events.MarkAdvanced(run_id=run_id, holder=holder, epoch=epoch, used=used)
        )

    def relinquish_run(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """Let go of a run that stays open; charged steps that were not begun are unspent again.

        `used` is the exact number of steps begun, from `answered` to the mark, else
        `LedgerConflict`. After that the holder can do nothing with the run, so none of what came
        back can be used without a new charge; anybody may adopt it, at once.
        """
        return self._record(
            events.RunRelinquished(run_id=run_id, holder=holder, epoch=epoch, used=used)
        )

    def begin_setup(self, run_id: str, holder: str, epoch: int) -> RunState:
        """Charge the setup for good, once: a second call is a `LedgerConflict`, in any epoch.

        What the steward decided since the opening holds as for `advance_mark`.
        """
        return self._record(events.SetupBegun(run_id=run_id, holder=holder, epoch=epoch))

    def store_setup(self, run_id: str, holder: str, epoch: int, payload: bytes) -> RunState:
        """Keep what the setup released, once and after it has begun, else `LedgerConflict`.

        Not any more when the data set is paused, retired or erased: `DatasetPaused` or
        `DatasetRetired`, as for a charge.
        """
        digest = hashlib.sha256(payload).hexdigest()
        stored = events.SetupStored(run_id=run_id, holder=holder, epoch=epoch, digest=digest)
        return self._record(stored, payload)

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """End a run; the steps between `used` and the declared number return to the budget.

        `used` is the exact number of steps begun, from `answered` to the mark, else
        `LedgerConflict`. The setup returns too if it never began.
        """
        return self._record(
            events.RunClosed(run_id=run_id, holder=holder, epoch=epoch, used=used, reason=reason)
        )

    def dataset(self, name: str) -> DatasetState:
        """Return one data set."""
        return self._read(name).dataset(name)

    def account(self, name: str) -> Account:
        """Return the rule under the present cap with the spent and the reserved totals."""
        return self._read(name).account(name)

    def share(self, name: str, analyst: str) -> Account | None:
        """Return the same of one analyst's own cap and runs, None if there is no such cap."""
        return self._read(name, (analyst,)).share(name, analyst)

    def spends(self, name: str) -> tuple[Spend, ...]:
        """Return what each analyst with a run has spent and reserved, by name, each alone."""
        return self._read(name, ALL).spends(name)

    def statement(self, name: str) -> Statement:
        """Return what the data set has spent and what is left."""
        return self._read(name, with_runs=True).statement(name)
