"""Whether the rows of a padded batch hold what a step draws; from public facts alone."""

from __future__ import annotations

import math

from curator.data.errors import SourceError
from curator.privacy.facts import DatasetFacts

_DIGITS = 6  # of a mean of whole records: 40/1437 times 1437 is 40


def enough_rows(mean: float) -> int:
    """Return how many rows hold next to every sample of so many on average."""
    return math.ceil(round(mean + 8 * math.sqrt(mean), _DIGITS))


def check_capacity(facts: DatasetFacts) -> None:
    """Refuse a capacity that would cut most samples; a group counts as the one record it has.

    Raises:
        SourceError: If the capacity is below the expected batch.
    """
    mean = _mean(facts)
    if facts.capacity < mean:
        msg = (
            f"capacity: {facts.capacity} is below the {mean:g} {facts.unit}s that --sampling-rate "
            f"times --nominal-size (q n) draws in one step, so most samples would be cut: "
            f"q n + 8 sqrt(q n) is {enough_rows(mean)}"
        )
        raise SourceError(msg)


def capacity_warning(facts: DatasetFacts) -> str | None:
    """Return what to tell a steward whose capacity cuts some samples, None if hardly any."""
    records = facts.max_records_per_group or 1
    enough = enough_rows(_mean(facts) * records)
    if facts.capacity >= min(enough, facts.max_size * records):
        return None
    of_groups = f" with {records} records of each group" if records > 1 else ""
    return (
        f"capacity {facts.capacity} is below q n + 8 sqrt(q n){of_groups}, which is {enough}: "
        "samples at the largest sampling rate will be cut now and then, and the capacity never "
        "changes; a smaller rate of a run helps"
    )


def _mean(facts: DatasetFacts) -> float:
    return round(facts.sampling_rate * facts.nominal_size, _DIGITS)
