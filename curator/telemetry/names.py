"""The allow-list: every metric that may leave, with its labels; every value is a public fact.

A metric is about requests, the ledger's numbers and health. None is about records, batches, norms
or what a mechanism saw, and durations are counted in the log's coarse buckets, without a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How a metric behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric that may leave; `labels` are all that it may have."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


class UnlistedMetric(ValueError):
    """A metric, or a label of it, is not on the allow-list."""


REQUESTS: Final = "weir_requests_total"
REQUEST_SECONDS: Final = "weir_request_seconds"
REFUSALS: Final = "weir_refusals_total"
STEPS_ANSWERED: Final = "weir_steps_answered_total"
CAP: Final = "weir_dataset_epsilon_cap"
REGISTERED: Final = "weir_dataset_epsilon_registered"
SPENT: Final = "weir_dataset_epsilon_spent"
RESERVED: Final = "weir_dataset_epsilon_reserved"
ACTIVE: Final = "weir_dataset_active"
IN_SERVICE: Final = "weir_dataset_in_service"
OPEN_RUNS: Final = "weir_open_runs"
LEDGER_ENTRIES: Final = "weir_ledger_entries_total"
LEDGER_FAILURES: Final = "weir_ledger_failures_total"
LEDGER_READABLE: Final = "weir_ledger_readable"
READY: Final = "weir_ready"

_DATASET = ("dataset",)
_ALL = (
    Metric(REQUESTS, Kind.COUNTER, "Finished requests.", ("method", "outcome")),
    Metric(REQUEST_SECONDS, Kind.HISTOGRAM, "Durations in the log's buckets.", ("method",)),
    Metric(REFUSALS, Kind.COUNTER, "Requests that were refused or failed.", ("reason",)),
    Metric(STEPS_ANSWERED, Kind.COUNTER, "Steps answered by this process.", _DATASET),
    Metric(CAP, Kind.GAUGE, "Epsilon that the steward allows now.", _DATASET),
    Metric(REGISTERED, Kind.GAUGE, "Epsilon that was registered.", _DATASET),
    Metric(SPENT, Kind.GAUGE, "Epsilon of steps that may have been answered.", _DATASET),
    Metric(RESERVED, Kind.GAUGE, "Epsilon spent, or reserved by open runs.", _DATASET),
    Metric(ACTIVE, Kind.GAUGE, "Whether the data set can be charged.", _DATASET),
    Metric(IN_SERVICE, Kind.GAUGE, "Whether the stored images are whole here.", _DATASET),
    Metric(OPEN_RUNS, Kind.GAUGE, "Open runs, over all analysts.", _DATASET),
    Metric(LEDGER_ENTRIES, Kind.COUNTER, "Entries of the ledger, by all curators."),
    Metric(LEDGER_FAILURES, Kind.COUNTER, "Requests that failed because of the ledger."),
    Metric(LEDGER_READABLE, Kind.GAUGE, "Whether the ledger could be read just now."),
    Metric(READY, Kind.GAUGE, "Whether the curator takes steps: its ledger can be written."),
)
METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _ALL}


def listed(name: str, labels: tuple[str, ...]) -> Metric:
    """Return a metric that may leave.

    Args:
        name: Of the metric.
        labels: The names of all its labels, in any order.

    Raises:
        UnlistedMetric: If it, or one of its labels, is not on the list.
    """
    metric = METRICS.get(name)
    if metric is None or sorted(metric.labels) != sorted(labels):
        msg = f"the metric {name!r} with the labels {labels} is not on the allow-list"
        raise UnlistedMetric(msg)
    return metric
