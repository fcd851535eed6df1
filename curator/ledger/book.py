"""What each entry does to the data sets and runs: pure, and the only place where it is decided.

A live ledger and a replay of its entries go through the same function, so they cannot disagree;
a replay refuses whatever a live ledger would have refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import assert_never

from curator.accounting.cost import Cost, total_cost
from curator.errors import BudgetExhausted, RunClosed, UnknownDataset, UnknownRun
from curator.ledger import entries
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.records import (
    Account,
    ChainBroken,
    DatasetExists,
    DatasetState,
    HolderLost,
    LedgerConflict,
    RunExists,
    RunOpening,
    RunState,
    RunStatus,
    Use,
)


@dataclass(slots=True)
class Book:
    """The data sets and runs that a question or a change is about, or all of them.

    `settled` counts the uses of each data set's closed runs, of which `runs` may lack some or all:
    nothing about a closed run changes any more, so it need not be looked at again.
    """

    datasets: dict[str, DatasetState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    settled: dict[str, dict[Cost, int]] = field(default_factory=dict)

    def dataset(self, name: str) -> DatasetState:
        """Return one data set.

        Raises:
            UnknownDataset: If it is not here.
        """
        if name not in self.datasets:
            raise UnknownDataset
        return self.datasets[name]

    def run(self, run_id: str) -> RunState:
        """Return one run.

        Raises:
            UnknownRun: If it is not here.
        """
        if run_id not in self.runs:
            raise UnknownRun
        return self.runs[run_id]

    def account(self, name: str) -> Account:
        """Return the totals of one data set, over all its runs."""
        state = self.dataset(name)
        settled = self.settled.get(name, {}).items()
        runs = [run for run in self.runs.values() if run.dataset == name and run.is_open]
        return Account(
            rule=state.rule,
            spent=total_cost(chain(settled, *(run.spent_uses for run in runs))),
            reserved=total_cost(chain(settled, *(run.reserved_uses for run in runs))),
        )

    def settle(self, dataset: str, uses: Iterable[Use]) -> None:
        """Count what a closed run used, once and for good."""
        counts = self.settled.setdefault(dataset, {})
        for cost, count in uses:
            counts[cost] = counts.get(cost, 0) + count

    def apply(self, happening: entries.Happening, at: str) -> DatasetState | RunState:
        """Check that something may happen, and let it.

        Args:
            happening: What is asked for, or what an entry says has happened.
            at: When, in UTC.

        Returns:
            The one data set or run that changed.
        """
        match happening:
            case entries.DatasetRegistered():
                return self._register(happening, at)
            case entries.RunOpened():
                return self._open(happening, at)
            case event:
                state = after(self.run(event.run_id), event, at)
                self.runs[event.run_id] = state
                if not state.is_open:
                    self.settle(state.dataset, state.spent_uses)
                return state

    def _register(self, happening: entries.DatasetRegistered, at: str) -> DatasetState:
        registration, rule = happening.registration, happening.rule
        if registration.name in self.datasets:
            msg = (
                f"the data set {registration.name!r} is registered already; a budget never changes"
            )
            raise DatasetExists(msg)
        if rule.budget != registration.budget:
            msg = "the rule was made for another budget"
            raise LedgerConflict(msg)
        state = DatasetState(registration=registration, rule=rule, registered_at=at)
        self.datasets[registration.name] = state
        return state

    def _open(self, happening: entries.RunOpened, at: str) -> RunState:
        opening = happening.opening
        account = self.account(opening.dataset)
        if opening.run_id in self.runs:
            msg = f"the run {opening.run_id!r} was opened before"
            raise RunExists(msg)
        if not account.rule.admits(account.reserved + opening.declared):
            raise BudgetExhausted(account.numbers(opening.declared))
        state = RunState(
            **{item.name: getattr(opening, item.name) for item in fields(RunOpening)},
            used=0,
            answered=0,
            status=RunStatus.OPEN,
            close_reason="",
            holder=happening.holder,
            epoch=1,
            setup_begun=False,
            setup_digest="",
            opened_at=at,
            closed_at="",
        )
        self.runs[opening.run_id] = state
        return state


def after(run: RunState, event: entries.RunEvent, at: str) -> RunState:
    """Return the run after `event`.

    Raises:
        RunClosed: If the run is closed, or steps past the declared ones are asked for.
        HolderLost: If the event is not by the run's holder in the present epoch.
        LedgerConflict: If the event cannot follow the run's state.
    """
    if not run.is_open:
        raise RunClosed
    if not isinstance(event, entries.RunAdopted) and (event.holder, event.epoch) != (
        run.holder,
        run.epoch,
    ):
        raise HolderLost
    match event:
        case entries.RunAdopted(holder=holder):
            return replace(run, holder=holder, epoch=run.epoch + 1, answered=run.used)
        case entries.MarkAdvanced(used=used):
            return _advanced(run, used)
        case entries.SetupBegun():
            _require(holds=not run.setup_begun, otherwise="the setup has begun before")
            return replace(run, setup_begun=True)
        case entries.SetupStored(digest=digest):
            _require(holds=run.setup_begun, otherwise="the setup has not begun")
            _require(holds=not run.setup_digest, otherwise="the setup is stored already")
            return replace(run, setup_digest=digest)
        case entries.RunClosed(used=used, reason=reason):
            _require(
                holds=type(used) is int and run.answered <= used <= run.used,
                otherwise="a run closes between what was answered and its mark",
            )
            return replace(
                run, used=used, status=RunStatus.CLOSED, close_reason=reason, closed_at=at
            )
        case _ as never:
            assert_never(never)


def _advanced(run: RunState, used: int) -> RunState:
    _require(
        holds=type(used) is int and used >= run.used, otherwise="the mark of a run never falls"
    )
    _require(
        holds=run.setup_begun or run.setup.is_zero,
        otherwise="the setup of a run is charged before its steps",
    )
    if used > run.num_steps:
        raise RunClosed
    return replace(run, used=used)


def _require(*, holds: bool, otherwise: str) -> None:
    if not holds:
        raise LedgerConflict(otherwise)


def replay(lines: Iterable[Entry]) -> tuple[Book, tuple[int, str]]:
    """Return the book that the entries make and the head of their chain.

    Raises:
        ChainBroken: If an entry does not follow the one before, or could not have been written.
    """
    book, head = Book(), (0, GENESIS)
    for entry in lines:
        if not entry.follows(head):
            msg = f"entry {entry.seq} after {head[0]} was changed, moved or follows a gap"
            raise ChainBroken(msg)
        try:
            book.apply(entries.decode(entry.kind, entry.body), entry.at)
        except Exception as error:
            msg = f"entry {entry.seq} could not have been written by this software: {error}"
            raise ChainBroken(msg) from error
        head = (entry.seq, entry.digest)
    return book, head
