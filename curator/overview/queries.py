"""Read-only answers about data sets, budgets and runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from curator.errors import UnknownDataset
from curator.ledger.ledger import (
    Account,
    DatasetState,
    Ledger,
    RunState,
    RunStatus,
    Spend,
    Statement,
)
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller
from curator.service.find_run import run_of
from curator.service.served_datasets import ServedDatasets
from curator.service.steward_policy import StewardPolicy

MOST_CLOSED: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class RunList:
    """Runs that a caller may see; at most `MOST_CLOSED` of those that are closed."""

    open: tuple[RunState, ...]  # in the order in which they were opened
    closed: tuple[RunState, ...]  # the last opened first
    num_closed: int


def list_datasets(ledger: Ledger, datasets: ServedDatasets) -> tuple[DatasetFacts, ...]:
    """Return the public facts of every data set, also of those added since the start."""
    names = [state.registration.name for state in ledger.datasets()]
    found = []
    for name in names:
        with suppress(UnknownDataset):  # registered elsewhere, and its images are not here
            found.append(datasets.facts(name))
    return tuple(found)


def report_budget(ledger: Ledger, datasets: ServedDatasets, name: str) -> Statement:
    """Return what is left of one data set.

    Raises:
        UnknownDataset: If there is none of that name.
    """
    datasets.get(name)
    return ledger.statement(name)


def report_share(ledger: Ledger, caller: Caller, name: str) -> Account | None:
    """Return what the caller has used of its own share of a data set, None without one."""
    return ledger.share(name, caller.name)


def report_spends(ledger: Ledger, caller: Caller, name: str) -> tuple[Spend, ...]:
    """Return what each analyst that a caller may see has spent of a data set, each alone."""
    owner = _owner(caller)
    return tuple(one for one in ledger.spends(name) if owner in {None, one.analyst})


def spent_alone(ledger: Ledger, runs: Iterable[RunState]) -> dict[str, float]:
    """Return the epsilon of each run as if it were the only one, by its id."""
    states: dict[str, DatasetState] = {}
    found = {}
    for run in runs:
        if run.dataset not in states:
            states[run.dataset] = ledger.dataset(run.dataset)
        found[run.run_id] = states[run.dataset].spent_alone(run)
    return found


def policy_rules(ledger: Ledger, name: str) -> dict[str, str]:
    """Return the steward's rules for a data set, as text by name."""
    return StewardPolicy.of(ledger.dataset(name)).rules()


def open_runs(ledger: Ledger, caller: Caller, dataset: str | None = None) -> tuple[RunState, ...]:
    """Return the open runs that a caller may see.

    Args:
        ledger: Where they are written.
        caller: Who asks; an analyst sees own runs, the steward all.
        dataset: Only runs of this data set.
    """
    return ledger.open_runs(dataset=dataset, analyst=_owner(caller))


def list_runs(ledger: Ledger, caller: Caller) -> RunList:
    """Return the runs that a caller may see: all that are open, and the last closed ones."""
    analyst = _owner(caller)
    still = ledger.open_runs(analyst=analyst)
    closed = ledger.latest_runs(MOST_CLOSED, analyst, RunStatus.CLOSED)
    ids = {run.run_id for run in closed}  # one that was closed in between is shown once
    return RunList(
        open=tuple(run for run in still if run.run_id not in ids),
        closed=closed,
        num_closed=ledger.num_closed(analyst),
    )


def page_of_runs(
    ledger: Ledger, caller: Caller, at_most: int, cursor: str | None
) -> tuple[RunState, ...]:
    """Return runs that a caller may see, the last opened first.

    Args:
        ledger: Where they are written.
        caller: Who asks.
        at_most: How many.
        cursor: The id of the last run of the page before; None for the first page.

    Raises:
        UnknownRun: If the cursor is no run that the caller may see.
    """
    before = None if cursor is None else run_of(ledger, caller, cursor).run_id
    return ledger.latest_runs(at_most, _owner(caller), before=before)


def _owner(caller: Caller) -> str | None:
    """Return whose runs a caller may see, None for everybody's."""
    return None if caller.sees_everything else caller.name
