"""Read-only answers about data sets, budgets and runs."""

from __future__ import annotations

from curator.ledger.ledger import RunState, Statement
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller
from curator.service.context import Context


def list_datasets(context: Context) -> tuple[DatasetFacts, ...]:
    """Return the public facts of every data set.

    Args:
        context: The collaborators.
    """
    return tuple(context.datasets[name].facts for name in sorted(context.datasets))


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


def list_runs(context: Context, caller: Caller, dataset: str | None = None) -> tuple[RunState, ...]:
    """Return the runs that a caller may see.

    Args:
        context: The collaborators.
        caller: Who asks; an analyst sees own runs, the steward all.
        dataset: Only runs of this data set.
    """
    analyst = None if caller.sees_everything else caller.name
    return tuple(context.ledger.runs(dataset=dataset, analyst=analyst))
