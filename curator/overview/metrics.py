"""The numbers of the metrics that are read off the ledger when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from curator.errors import LedgerUnavailable
from curator.ledger.ledger import DatasetStatus
from curator.service.context import Context
from curator.telemetry import names
from curator.telemetry.counts import Sample, sample


def measure(context: Context, *, is_ready: bool) -> tuple[Sample, ...]:
    """Return public facts about every data set, and whether the curator is well.

    Returns:
        The samples; without those of the ledger if it cannot be read, and then it says so.
    """
    ready = sample(names.READY, float(is_ready))
    try:
        ledger = tuple(_ledger(context))
    except LedgerUnavailable:
        return ready, sample(names.LEDGER_READABLE, 0.0)
    return ready, sample(names.LEDGER_READABLE, 1.0), *ledger


def _ledger(context: Context) -> Iterator[Sample]:
    sequence, _ = context.ledger.head()
    yield sample(names.LEDGER_ENTRIES, float(sequence))
    for state in context.ledger.datasets():
        name = state.registration.name
        statement = context.ledger.statement(name)
        is_active = statement.status is DatasetStatus.ACTIVE
        for metric, value in (
            (names.REGISTERED, statement.budget.epsilon),
            (names.CAP, statement.cap),
            (names.SPENT, statement.spent_epsilon),
            (names.RESERVED, statement.reserved_epsilon),
            (names.ACTIVE, float(is_active)),
            (names.IN_SERVICE, float(context.is_in_service(name))),
            (names.OPEN_RUNS, float(len(statement.open_runs))),
        ):
            yield sample(metric, value, dataset=name)
