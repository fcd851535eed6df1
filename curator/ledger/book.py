"""What each entry does to the data sets and runs: pure, and the only place where it is decided.

A live ledger and a replay of its entries go through the same function, so they cannot disagree;
a replay refuses whatever a live ledger would have refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import chain

from curator.accounting.cost import Cost, total_cost
from curator.accounting.rule import BudgetRule
from curator.errors import AllotmentExhausted, BudgetExhausted, UnknownDataset, UnknownRun
from curator.ledger import entries
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.problems import ChainBroken, DatasetExists, LedgerConflict, RunExists
from curator.ledger.records import (
    NOTHING,
    Account,
    DatasetState,
    RunOpening,
    RunState,
    RunStatus,
    Use,
)
from curator.ledger.transitions import after, decided


@dataclass(slots=True)
class Book:
    """The data sets and runs that a question or a change is about, or all of them.

    `settled` counts the uses of the closed runs, of which `runs` may lack some or all, by data set
    and analyst: nothing about a closed run changes any more, so it need not be looked at again.
    `asked` are the data sets on which a run was ever opened, as far as that is asked for.
    """

    datasets: dict[str, DatasetState] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    settled: dict[tuple[str, str], dict[Cost, int]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

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
        """Return the totals of one data set, over all its runs, under its present cap."""
        state = self.dataset(name)
        settled = [uses for (dataset, _), uses in self.settled.items() if dataset == name]
        runs = [run for run in self.runs.values() if run.dataset == name and run.is_open]
        return _account(state.cap_rule, settled, runs, state.added)

    def share(self, name: str, analyst: str) -> Account | None:
        """Return the totals of one analyst's runs under the analyst's own cap, None without one."""
        rule = self.dataset(name).share_rule(analyst)
        if rule is None:
            return None
        runs = [
            run
            for run in self.runs.values()
            if (run.dataset, run.analyst) == (name, analyst) and run.is_open
        ]
        return _account(rule, [self.settled.get((name, analyst), {})], runs, NOTHING)

    def settle(self, run: tuple[str, str], uses: Iterable[Use]) -> None:
        """Count what a closed run of (data set, analyst) used, once and for good."""
        counts = self.settled.setdefault(run, {})
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
            case entries.CapLowered() | entries.ShareSet() | entries.PolicySet() as decision:
                return self._decide(decision)
            case entries.StatusSet() | entries.SpendAdded() as decision:
                return self._decide(decision)
            case event:
                return self._go_on(event, at)

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
        state = DatasetState(
            registration=registration, rule=rule, registered_at=at, cap=rule.budget.epsilon
        )
        self.datasets[registration.name] = state
        return state

    def _open(self, happening: entries.RunOpened, at: str) -> RunState:
        opening = happening.opening
        account = self.account(opening.dataset)
        if opening.run_id in self.runs:
            msg = f"the run {opening.run_id!r} was opened before"
            raise RunExists(msg)
        self.dataset(opening.dataset).check_active()
        share = self.share(opening.dataset, opening.analyst)
        if share and not share.rule.admits(share.reserved + opening.declared):
            raise AllotmentExhausted(share.numbers(opening.declared))
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
        self.asked.add(opening.dataset)
        return state

    def _decide(self, decision: entries.Decision) -> DatasetState:
        """Let the steward decide.

        Raises:
            LedgerConflict: If an erased data set is said never to have been asked, and was.
        """
        if isinstance(decision, entries.StatusSet) and not decision.asked:
            added = self.dataset(decision.dataset).added
            if decision.dataset in self.asked or not added.is_zero:
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
        self.runs[event.run_id] = state
        if not state.is_open:
            self.settle((state.dataset, state.analyst), state.spent_uses)
        return state

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


def _account(
    rule: BudgetRule, settled: Iterable[dict[Cost, int]], runs: list[RunState], added: Cost
) -> Account:
    uses = [use for counts in settled for use in counts.items()]
    return Account(
        rule=rule,
        spent=added + total_cost(chain(uses, *(run.spent_uses for run in runs))),
        reserved=added + total_cost(chain(uses, *(run.reserved_uses for run in runs))),
    )


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
