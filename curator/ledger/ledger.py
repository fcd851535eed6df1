"""What a ledger promises: nothing is used before it is written, and nothing used is un-spent.

Spent is the cost of every run up to its durable mark, with its setup once begun. Reserved is the
same with the whole declared cost of every open run. Both are running totals of integers that change
with the run, in one transaction with its entry; `verify` compares them with the sums over all runs.
So what one call does depends on how many runs are open, never on how many were closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from curator.accounting.cost import Cost
from curator.ledger.chain import Entry
from curator.ledger.entries import Decision
from curator.ledger.problems import (
    ChainBroken,
    DatasetExists,
    HolderLost,
    LedgerConflict,
    LedgerFromTheFuture,
    LedgerLocked,
    RunExists,
)
from curator.ledger.records import (
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
from curator.privacy.budget import BudgetNumbers

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


class Ledger(Protocol):
    """The durable account of every data set.

    Every method may raise `LedgerUnavailable` (then nothing may be computed), and every method
    that names a data set or a run raises `UnknownDataset` or `UnknownRun` for one never written.
    Methods that take (holder, epoch) raise `RunClosed` for a closed run, else `HolderLost` when
    the run is held by another. All of them are atomic and safe to call from many threads.
    """

    def register_dataset(
        self, registration: DatasetRegistration, favourite: float | None = None
    ) -> DatasetState:
        """Fix a data set's cap, relation and rule for ever; `DatasetExists` the second time.

        `favourite` is the order that the rule favours, by default what suits Gaussians best.
        """
        ...

    def dataset(self, name: str) -> DatasetState:
        """Return one data set."""
        ...

    def datasets(self) -> tuple[DatasetState, ...]:
        """Return all data sets by name."""
        ...

    def decide(self, decision: Decision) -> DatasetState:
        """Write what the steward decided about a data set.

        `LedgerConflict` if a cap would rise, or a retired data set would come back. What is spent
        stays spent: a cap below it blocks every further charge.
        """
        ...

    def account(self, name: str) -> Account:
        """Return the rule under the present cap with the spent and the reserved totals."""
        ...

    def share(self, name: str, analyst: str) -> Account | None:
        """Return the same of one analyst's own cap and runs, None if there is no such cap."""
        ...

    def spends(self, name: str) -> tuple[Spend, ...]:
        """Return what each analyst with a run has spent and reserved, by name, each alone."""
        ...

    def statement(self, name: str) -> Statement:
        """Return what the data set has spent and what is left."""
        ...

    def would_reserve(self, dataset: str, cost: Cost) -> BudgetNumbers:
        """Return the numbers that reserving `cost` would give; affordable if asked <= budget."""
        ...

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """Reserve the whole declared cost; epoch 1.

        Else `RunExists`, `BudgetExhausted`, `AllotmentExhausted` for the analyst's own cap, or
        `DatasetPaused` or `DatasetRetired`.
        """
        ...

    def adopt_run(self, run_id: str, holder: str) -> RunState:
        """Take a run over: the epoch rises, and everything up to the mark counts as answered."""
        ...

    def advance_mark(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """Count steps as used before they are.

        The mark never falls (`LedgerConflict`); the present mark again writes nothing; past the
        declared steps the answer is `RunClosed`. A setup with a cost must have begun before. What
        the steward decided since the opening holds as for `open_run`, of what is spent.
        """
        ...

    def relinquish_run(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """Let go of a run that stays open; charged steps that were not begun are unspent again.

        `used` is the exact number of steps begun, from `answered` to the mark, else
        `LedgerConflict`. After that the holder can do nothing with the run, so none of what came
        back can be used without a new charge; anybody may adopt it, at once.
        """
        ...

    def begin_setup(self, run_id: str, holder: str, epoch: int) -> RunState:
        """Charge the setup for good, once: a second call is a `LedgerConflict`, in any epoch.

        What the steward decided since the opening holds as for `advance_mark`.
        """
        ...

    def store_setup(self, run_id: str, holder: str, epoch: int, payload: bytes) -> RunState:
        """Keep what the setup released, once and after it has begun, else `LedgerConflict`.

        Not any more when the data set is paused, retired or erased: `DatasetPaused` or
        `DatasetRetired`, as for a charge.
        """
        ...

    def setup_payload(self, run_id: str) -> bytes | None:
        """Return what `store_setup` kept, checked against its digest, or None."""
        ...

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """End a run; the steps between `used` and the declared number return to the budget.

        `used` is the exact number of steps begun, from `answered` to the mark, else
        `LedgerConflict`. The setup returns too if it never began.
        """
        ...

    def run(self, run_id: str) -> RunState:
        """Return one run."""
        ...

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> Iterator[RunState]:
        """Return all runs in the order in which they were opened, a page in memory at a time."""
        ...

    def open_runs(
        self, dataset: str | None = None, analyst: str | None = None
    ) -> tuple[RunState, ...]:
        """Return the open runs in the order in which they were opened."""
        ...

    def latest_runs(
        self,
        at_most: int,
        analyst: str | None = None,
        status: RunStatus | None = None,
        before: str | None = None,
    ) -> tuple[RunState, ...]:
        """Return runs, the last opened first; of those opened before one if `before` names it."""
        ...

    def num_closed(self, analyst: str | None = None) -> int:
        """Return how many closed runs there are."""
        ...

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Return the entries with a higher sequence number than `after`, in order."""
        ...

    def head(self) -> tuple[int, str]:
        """Return the last entry's sequence number and digest; (0, genesis) when there is none."""
        ...

    def verify(self) -> None:
        """Check the chain, and that all that is shown follows from it, else raise `ChainBroken`."""
        ...
