"""What each entry does to the data sets and runs: pure, and the only place where it is decided.

A live ledger and a replay of its entries go through the same function, so they cannot disagree;
a replay refuses whatever a live ledger would have refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Final

from curator.errors import AllotmentExhausted, BudgetExhausted, UnknownDataset, UnknownRun
from curator.ledger import entries
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.datasets_and_runs import (
    ACCOUNTANT,
    Account,
    DatasetState,
    RunOpening,
    RunState,
    RunStatus,
    Spend,
    Statement,
)
from curator.ledger.problems import ChainBroken, DatasetExists, LedgerConflict, RunExists
from curator.ledger.totals import EVERYBODY, Change, Totals
from curator.ledger.transitions import after, decided

_NOTHING: Final = Totals()
_OPENED_WITH: Final = tuple(item.name for item in fields(RunOpening))


@dataclass(slots=True)
class Book:
    """The data sets and runs that a question or a change is about, or all of them.

    `totals` count all runs, also those that are not here, by data set and analyst: no question
    about a budget looks at runs. A run that closes moves from `runs` to `closed`, from where it may
    be taken away: nothing about it changes any more.
    """

    datasets: dict[str, DatasetState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    closed: dict[str, RunState] = field(default_factory=dict)
    totals: dict[tuple[str, str], Totals] = field(default_factory=dict)

    def dataset(self, name: str) -> DatasetState:
        """Return one data set.

        Raises:
            UnknownDataset: If it is not here.
        """
        if name not in self.datasets:
            msg = f"no data set is named {name!r}"
            raise UnknownDataset(msg)
        return self.datasets[name]

    def run(self, run_id: str) -> RunState:
        """Return one run.

        Raises:
            UnknownRun: If it is not here.
        """
        run = self.runs.get(run_id) or self.closed.get(run_id)
        if run is None:
            raise UnknownRun
        return run

    def account(self, name: str) -> Account:
        """Return the totals of one data set, over all its runs, under its present cap."""
        return account_of(self.dataset(name), self.total(name))

    def total(self, name: str, whose: str = EVERYBODY) -> Totals:
        """Return the totals of one data set, or of one analyst there."""
        return self.totals.get((name, whose), _NOTHING)

    def share(self, name: str, analyst: str) -> Account | None:
        """Return the totals of one analyst's runs under the analyst's own cap, None without one."""
        rule = self.dataset(name).share_rule(analyst)
        if rule is None:
            return None
        totals = self.total(name, analyst)
        return Account(rule=rule, spent=totals.spent.cost, reserved=totals.reserved.cost)

    def spends(self, name: str) -> tuple[Spend, ...]:
        """Return what each analyst with a run has spent and reserved, by name, each alone."""
        rule = self.dataset(name).rule
        return tuple(
            Spend(
                analyst=analyst,
                spent_epsilon=rule.spent_epsilon(totals.spent.cost),
                reserved_epsilon=rule.spent_epsilon(totals.reserved.cost),
            )
            for (dataset, analyst), totals in sorted(self.totals.items())
            if dataset == name and analyst != EVERYBODY
        )

    def statement(self, name: str) -> Statement:
        """Return what a data set has spent and what is left; its open runs are in the book."""
        state, account = self.dataset(name), self.account(name)
        reserved = state.rule.spent_epsilon(account.reserved)
        open_runs = tuple(run for run in self.runs.values() if run.dataset == name and run.is_open)
        return Statement(
            dataset=name,
            budget=state.registration.budget,
            cap=state.cap,
            status=state.status,
            adjacency=state.registration.adjacency,
            spent_epsilon=state.rule.spent_epsilon(account.spent),
            reserved_epsilon=reserved,
            remaining_epsilon=max(0.0, state.cap - reserved),
            accountant=ACCOUNTANT,
            open_runs=open_runs,
        )

    def apply(self, event: entries.LedgerEvent, at: str) -> DatasetState | RunState:
        """Check that something may happen, and let it.

        Args:
            event: What is asked for, or what an entry says has happened.
            at: When, in UTC.
        """
        match event:
            case entries.DatasetRegistered():
                return self._register(event, at)
            case entries.RunOpened():
                return self._open(event, at)
            case entries.CapLowered() | entries.ShareSet() | entries.PolicySet() as decision:
                return self._decide(decision)
            case entries.StatusSet() | entries.SpendAdded() as decision:
                return self._decide(decision)
            case event:
                return self._go_on(event, at)

    def _register(self, event: entries.DatasetRegistered, at: str) -> DatasetState:
        registration, rule = event.registration, event.rule
        if registration.name in self.datasets:
            msg = (
                f"the data set {registration.name!r} is registered already; a budget never changes"
            )
            raise DatasetExists(msg)
        if rule.budget != registration.budget:
            msg = "the rule was made for another budget"
            raise LedgerConflict(msg)
        state = DatasetState(
            registration=registration, rule=rule, registered_at=at, cap=rule.budget.epsilon
        )
        self.datasets[registration.name] = state
        return state

    def _open(self, event: entries.RunOpened, at: str) -> RunState:
        opening = event.opening
        account = self.account(opening.dataset)
        if opening.run_id in self.runs or opening.run_id in self.closed:
            msg = f"the run {opening.run_id!r} was opened before"
            raise RunExists(msg)
        self.dataset(opening.dataset).check_active()
        declared = opening.declared
        share = self.share(opening.dataset, opening.analyst)
        if share and not share.rule.admits(share.reserved + declared):
            raise AllotmentExhausted(share.numbers(declared))
        if not account.rule.admits(account.reserved + declared):
            raise BudgetExhausted(account.numbers(declared))
        state = RunState(
            **{name: getattr(opening, name) for name in _OPENED_WITH},
            used=0,
            answered=0,
            status=RunStatus.OPEN,
            close_reason="",
            holder=event.holder,
            epoch=1,
            setup_begun=False,
            setup_digest="",
            opened_at=at,
            closed_at="",
        )
        self._show(None, state)
        return state

    def _decide(self, decision: entries.Decision) -> DatasetState:
        """Let the steward decide.

        Raises:
            LedgerConflict: If an erased data set is said never to have been asked, and was.
        """
        if isinstance(decision, entries.StatusSet) and not decision.asked:
            added = self.dataset(decision.dataset).added
            if (decision.dataset, EVERYBODY) in self.totals or not added.is_zero:
                msg = "a run was opened on this data set: ask again, and it is erased as one"
                raise LedgerConflict(msg)
        state = decided(self.dataset(decision.dataset), decision)
        self.datasets[decision.dataset] = state
        return state

    def _go_on(self, event: entries.RunEvent, at: str) -> RunState:
        before = self.run(event.run_id)
        state = after(before, event, at)
        if isinstance(event, entries.MarkAdvanced | entries.SetupBegun):
            self._check_charge(before, state)
        self._show(before, state)
        return state

    def _show(self, before: RunState | None, run: RunState) -> None:
        """Keep a run as it is now, and count what changed."""
        if run.is_open:
            self.runs[run.run_id] = run
        else:
            self.runs.pop(run.run_id, None)
            self.closed[run.run_id] = run
        change = Change.of(before, run)
        for whose in {EVERYBODY, run.analyst}:
            self.totals[run.dataset, whose] = self.total(run.dataset, whose).after(change)

    def _check_charge(self, before: RunState, state: RunState) -> None:
        """Check what was reserved at opening against what the steward has decided since.

        Raises:
            DatasetPaused: If the data set is paused.
            DatasetRetired: If it is retired or erased.
            AllotmentExhausted: If it would go beyond the analyst's present cap.
            BudgetExhausted: If it would go beyond the data set's present cap.
        """
        dataset = self.dataset(state.dataset)
        dataset.check_active()
        if not dataset.is_restricted(state.analyst):
            return
        extra = state.spent.beyond(before.spent)
        share = self.share(state.dataset, state.analyst)
        if share and not share.rule.admits(share.spent + extra):
            raise AllotmentExhausted(share.spent_numbers(extra))
        account = self.account(state.dataset)
        if not account.rule.admits(account.spent + extra):
            raise BudgetExhausted(account.spent_numbers(extra))


def account_of(state: DatasetState, totals: Totals) -> Account:
    """Return what totals are under a data set's present cap, with the spend that has no run."""
    spent, reserved = totals.spent.cost, totals.reserved.cost
    if not state.added.is_zero:
        spent, reserved = state.added + spent, state.added + reserved
    return Account(rule=state.cap_rule, spent=spent, reserved=reserved)


@dataclass(slots=True)
class Place:
    """Where a replay begins, and where it is: the book and head after an entry.

    `ids` are of all runs that were opened, of which the book has those that are open.
    """

    book: Book = field(default_factory=Book)
    head: tuple[int, str] = (0, GENESIS)
    ids: set[str] = field(default_factory=set)


def follow(lines: Iterable[Entry], place: Place) -> Iterator[tuple[Entry, DatasetState | RunState]]:
    """Apply entries, and return each with what it changed.

    Args:
        lines: The entries after the place, in order; only one at a time is held.
        place: Goes on with each entry; its book is left without the runs that were closed.

    Raises:
        ChainBroken: If an entry does not follow the one before, or could not have been written.
    """
    for entry in lines:
        check_follows(entry, place.head)
        try:
            event = entries.decode(entry.kind, entry.body)
            if isinstance(event, entries.RunOpened):
                _check_new(event.opening.run_id, place.ids)
            state = place.book.apply(event, entry.at)
        except Exception as error:
            msg = f"entry {entry.seq} could not have been written by this software: {error}"
            raise ChainBroken(msg) from error
        place.head = (entry.seq, entry.digest)
        place.book.closed.clear()
        yield entry, state


def check_follows(entry: Entry, head: tuple[int, str]) -> None:
    """Check that an entry is unchanged and comes right after the head.

    Raises:
        ChainBroken: If not.
    """
    if not entry.follows(head):
        msg = f"entry {entry.seq} after {head[0]} was changed, moved or follows a gap"
        raise ChainBroken(msg)


def _check_new(run_id: str, known: set[str]) -> None:
    """Remember a run that is opened.

    Raises:
        RunExists: If it was opened before.
    """
    if run_id in known:
        msg = f"the run {run_id!r} was opened before"
        raise RunExists(msg)
    known.add(run_id)
