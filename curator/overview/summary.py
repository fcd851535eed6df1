"""What one caller may see of everything, gathered for one page.

An analyst sees each data set's totals, the own share, own runs and own refusals; the steward and
the auditor see everybody's. Whatever is refused elsewhere is not gathered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from curator.divergences.backend import Choice
from curator.ledger.ledger import NOTHING, Ledger, RunState, Spend, Statement
from curator.overview.history import History, Point
from curator.overview.queries import (
    list_datasets,
    list_runs,
    policy_rules,
    report_spends,
    spent_alone,
)
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller, Role
from curator.service.releases_in_progress import InProgress
from curator.service.served_datasets import ServedDatasets
from curator.telemetry.requests import Telemetry


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shown:
    """What pages and metrics are read off."""

    ledger: Ledger
    datasets: ServedDatasets
    telemetry: Telemetry
    is_ready: Callable[[], bool]  # whether the curator takes steps now
    solver: Choice | None = None  # of the Sinkhorn updates, with its measured error
    history: History = field(default_factory=History)  # of the ledger; by default read anew
    making: Callable[[], Mapping[str, InProgress]] = dict  # releases that are being made here


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareOverview:
    """An analyst's part of a budget, measured alone."""

    analyst: str
    budget: float
    spent: float
    reserved: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetOverview:
    """One data set with its totals over all analysts."""

    facts: DatasetFacts
    statement: Statement
    is_in_service: bool
    rules: dict[str, str]
    shares: tuple[ShareOverview, ...]
    spends: tuple[Spend, ...]  # of the analysts that the caller may see, each alone
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOverview:
    """One run, how many steps were charged a second lately, and its release while it is made."""

    state: RunState
    steps_per_second: float | None
    making: InProgress | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """Everything that one caller may see."""

    caller: Caller
    at: datetime
    is_ready: bool
    has_whole_history: bool
    solver: Choice | None
    has_ordered_times: bool  # of entries; the clock may have been set
    head: tuple[int, str] | None  # for the steward and the auditor
    datasets: tuple[DatasetOverview, ...]
    open_runs: tuple[RunOverview, ...]
    closed_runs: tuple[RunState, ...]  # the latest first
    num_closed_runs: int
    spent_alone: dict[str, float]  # epsilon of each run as if it were the only one, by its id
    refusals: tuple[tuple[str, str, int], ...]  # caller, reason, how often since the start

    @property
    def is_rehearsal(self) -> bool:
        """Whether all this is about public data without a limit."""
        return any(dataset.facts.rehearsal for dataset in self.datasets)

    @property
    def out_of_service(self) -> tuple[str, ...]:
        """Names of data sets whose stored images are damaged."""
        return tuple(one.facts.name for one in self.datasets if not one.is_in_service)


def overview(shown: Shown, caller: Caller, at: datetime) -> Overview:
    """Return what a caller may see.

    Args:
        shown: What it is read off.
        caller: Who asks.
        at: The present in UTC.
    """
    ledger, history = shown.ledger, shown.history
    has_whole_history = history.read(ledger)
    runs, making = list_runs(ledger, caller), shown.making()
    return Overview(
        caller=caller,
        at=at,
        is_ready=shown.is_ready(),
        has_whole_history=has_whole_history,
        solver=shown.solver,
        has_ordered_times=history.has_ordered_times,
        head=ledger.head() if caller.sees_everything else None,
        datasets=tuple(
            _dataset(shown, caller, facts) for facts in list_datasets(ledger, shown.datasets)
        ),
        open_runs=tuple(
            RunOverview(
                state=run,
                steps_per_second=history.steps_per_second(run.run_id, at),
                making=_making(making.get(run.run_id), caller),
            )
            for run in runs.open
        ),
        closed_runs=runs.closed,
        num_closed_runs=runs.num_closed,
        spent_alone=spent_alone(ledger, (*runs.open, *runs.closed)),
        refusals=shown.telemetry.refusals(None if caller.sees_everything else caller.name),
    )


def _making(making: InProgress | None, caller: Caller) -> InProgress | None:
    """Return what a caller may see of a release: when its tenths change may tell of records."""
    if making is None or caller.role is Role.STEWARD:
        return making
    return replace(making, tenths=None)


def _dataset(shown: Shown, caller: Caller, facts: DatasetFacts) -> DatasetOverview:
    ledger = shown.ledger
    statement = ledger.statement(facts.name)
    return DatasetOverview(
        facts=facts,
        statement=statement,
        is_in_service=shown.datasets.is_in_service(facts.name),
        rules=policy_rules(ledger, facts.name),
        shares=tuple(_shares(ledger, caller, facts.name)),
        spends=report_spends(ledger, caller, facts.name),
        points=shown.history.points(facts.name),
    )


def _shares(ledger: Ledger, caller: Caller, name: str) -> list[ShareOverview]:
    shared = [analyst for analyst, _ in ledger.dataset(name).shares]
    if not caller.sees_everything:
        shared = [analyst for analyst in shared if analyst == caller.name]
    found = []
    for analyst in shared:
        account = ledger.share(name, analyst)
        if account is None:
            continue
        numbers = account.numbers(NOTHING)
        found.append(
            ShareOverview(
                analyst=analyst,
                budget=numbers.budget,
                spent=numbers.spent,
                reserved=numbers.reserved,
            )
        )
    return found
