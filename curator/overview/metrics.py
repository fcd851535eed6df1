"""The numbers of the metrics that are read off the ledger when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from curator.errors import LedgerUnavailable
from curator.ledger.ledger import DatasetStatus, Ledger
from curator.overview.summary import Shown
from curator.service.served_datasets import ServedDatasets
from curator.telemetry import names
from curator.telemetry.counts import Sample, sample


def measure(shown: Shown) -> tuple[Sample, ...]:
    """Return public facts about every data set, and whether the curator is well.

    Returns:
        The samples; without those of the ledger if it cannot be read, and then it says so.
    """
    ready = sample(names.READY, float(shown.is_ready()))
    try:
        samples = tuple(_ledger(shown.ledger, shown.datasets))
    except LedgerUnavailable:
        return ready, sample(names.LEDGER_READABLE, 0.0)
    return ready, sample(names.LEDGER_READABLE, 1.0), *samples


def _ledger(ledger: Ledger, datasets: ServedDatasets) -> Iterator[Sample]:
    sequence, _ = ledger.head()
    yield sample(names.LEDGER_ENTRIES, float(sequence))
    for state in ledger.datasets():
        name = state.registration.name
        statement = ledger.statement(name)
        is_active = statement.status is DatasetStatus.ACTIVE
        for metric, value in (
            (names.REGISTERED, statement.budget.epsilon),
            (names.CAP, statement.cap),
            (names.SPENT, statement.spent_epsilon),
            (names.RESERVED, statement.reserved_epsilon),
            (names.ACTIVE, float(is_active)),
            (names.IN_SERVICE, float(datasets.is_in_service(name))),
            (names.OPEN_RUNS, float(len(statement.open_runs))),
        ):
            yield sample(metric, value, dataset=name)
