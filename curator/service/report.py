"""Read-only answers about data sets, budgets and runs."""

from __future__ import annotations

from contextlib import suppress

from curator.errors import UnknownDataset
from curator.ledger.ledger import Account, RunState, Statement
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.steward_policy import StewardPolicy


def list_datasets(context: Context) -> tuple[DatasetFacts, ...]:
    """Return the public facts of every data set, also of those added since the start.

    Args:
        context: The collaborators.
    """
    names = [state.registration.name for state in context.ledger.datasets()]
    found = []
    for name in names:
        with suppress(UnknownDataset):  # registered elsewhere, and its images are not here
            found.append(context.served(name).facts)
    return tuple(found)


def describe_dataset(context: Context, name: str) -> DatasetFacts:
    """Return the public facts of one data set.

    Args:
        context: The collaborators.
        name: Which one.

    Raises:
        UnknownDataset: If there is none of that name.
    """
    return context.served(name).facts


def report_budget(context: Context, name: str) -> Statement:
    """Return what is left of one data set.

    Args:
        context: The collaborators.
        name: Which one.

    Raises:
        UnknownDataset: If there is none of that name.
    """
    context.served(name)
    return context.ledger.statement(name)


def report_share(context: Context, caller: Caller, name: str) -> Account | None:
    """Return what the caller has used of its own share of a data set, None without one.

    Args:
        context: The collaborators.
        caller: Who asks.
        name: Which data set.
    """
    return context.ledger.share(name, caller.name)


def policy_rules(context: Context, name: str) -> dict[str, str]:
    """Return the steward's rules for a data set, as text by name.

    Args:
        context: The collaborators.
        name: Which one.
    """
    return StewardPolicy.of(context.ledger.dataset(name)).rules()


def list_runs(context: Context, caller: Caller, dataset: str | None = None) -> tuple[RunState, ...]:
    """Return the runs that a caller may see.

    Args:
        context: The collaborators.
        caller: Who asks; an analyst sees own runs, the steward all.
        dataset: Only runs of this data set.
    """
    analyst = None if caller.sees_everything else caller.name
    return tuple(context.ledger.runs(dataset=dataset, analyst=analyst))
