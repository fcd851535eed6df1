"""What the steward's declarations allow a run to ask."""

from __future__ import annotations

from curator.errors import PolicyRefused
from curator.mechanisms.base import Requirements, ServedMechanism
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.facts import DatasetFacts


def check_policy(mechanism: ServedMechanism, facts: DatasetFacts) -> None:
    """Refuse parameters beyond what the steward declared.

    Args:
        mechanism: Built from the request.
        facts: The data set's declarations.

    Raises:
        PolicyRefused: If the sampling rate or the capacity is above the declared one, or a bound
            that the cost relies on is below it.
    """
    needed = mechanism.requirements()
    _check_samples(needed, facts)
    _check_bounds(needed, facts)


def _check_samples(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse a larger part of the records than the steward lets anybody sample.

    Raises:
        PolicyRefused: If the sampling rate or the capacity is above the declared one.
    """
    samples = needed.samples
    if samples is None:
        return
    if samples.rate.exact > SamplingRate.at_least(facts.sampling_rate).exact:
        most = facts.sampling_rate * facts.nominal_size
        msg = (
            f"sampling_rate may be at most {facts.sampling_rate:.6g} on this data set, which is an "
            f"expected batch of {most:.6g} of {facts.nominal_size:,}"
        )
        raise PolicyRefused(msg)
    if samples.capacity > facts.capacity:
        msg = f"capacity may be at most {facts.capacity} on this data set"
        raise PolicyRefused(msg)


def _check_bounds(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse bounds that the data set may exceed: its cost would be under-counted.

    Raises:
        PolicyRefused: If the number of units, or of records of one unit, may be larger.
    """
    if needed.max_size is not None and needed.max_size < facts.max_size:
        msg = f"max_size must be at least {facts.max_size} on this data set"
        raise PolicyRefused(msg)
    most = facts.max_records_per_group or 1
    if needed.max_records_per_unit is not None and needed.max_records_per_unit < most:
        msg = f"max_records_per_unit must be at least {most} on this data set"
        raise PolicyRefused(msg)
