"""What a data set was declared for: how much of it a run may ask."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context
from typing import Final

from curator.errors import PolicyRefused
from curator.mechanisms.base import Requirements, ServedMechanism
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.facts import DatasetFacts

_DIGITS: Final = Context(prec=6, rounding=ROUND_FLOOR)


class BeyondDeclaration(PolicyRefused):
    """A run is too large for a data set as it was declared: other numbers help, no steward does."""

    public_message = "This does not fit what the data set was declared for; nothing was charged."
    remedy = (
        "Change the key that the detail names, with --set or in the recipe's file. What was "
        "declared never changes, so no steward can allow more; 'analyst budget' (DescribeDataset) "
        "shows it."
    )


def check_policy(mechanism: ServedMechanism, facts: DatasetFacts) -> None:
    """Refuse parameters beyond what the steward declared.

    Args:
        mechanism: Built from the request.
        facts: The data set's declarations.

    Raises:
        BeyondDeclaration: If the sampling rate or the capacity is above the declared one, or a
            bound that the cost relies on is below it.
    """
    needed = mechanism.requirements()
    _check_samples(needed, facts)
    _check_bounds(needed, facts)


def _check_samples(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse a larger part of the records than the steward lets anybody sample.

    Raises:
        BeyondDeclaration: If the sampling rate or the capacity is above the declared one.
    """
    samples = needed.samples
    if samples is None:
        return
    if samples.rate.exact > SamplingRate.at_least(facts.sampling_rate).exact:
        asked = float(samples.rate)
        msg = (
            f"mechanism.sampling_rate may be at most {facts.sampling_rate:.6g} on this data set, "
            f"and is {asked:.6g}: mechanism.expected_batch_size may be at most {_batch(facts)} of "
            f"{facts.nominal_size:,}, and is {asked * facts.nominal_size:.6g}"
        )
        raise BeyondDeclaration(msg)
    if samples.capacity > facts.capacity:
        msg = (
            f"mechanism.capacity may be at most {facts.capacity} on this data set, and is "
            f"{samples.capacity}; a recipe without this key asks for {facts.capacity}"
        )
        raise BeyondDeclaration(msg)


def _batch(facts: DatasetFacts) -> str:
    """Return the largest expected batch that may be asked, to six digits, as a recipe has it."""
    most = SamplingRate.at_least(facts.sampling_rate).exact
    rate = facts.sampling_rate * facts.nominal_size
    nearest = float(f"{rate:.6g}")
    if SamplingRate.at_least(min(1.0, nearest / facts.nominal_size)).exact <= most:
        return f"{nearest:.6g}"
    return f"{float(_DIGITS.create_decimal_from_float(rate)):.6g}"


def _check_bounds(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse bounds that the data set may exceed: its cost would be under-counted.

    Raises:
        BeyondDeclaration: If the number of units, or of records of one unit, may be larger.
    """
    if needed.max_size is not None and needed.max_size < facts.max_size:
        msg = _too_low("max_size", needed.max_size, facts.max_size)
        raise BeyondDeclaration(msg)
    most = facts.max_records_per_group or 1
    if needed.max_records_per_unit is not None and needed.max_records_per_unit < most:
        msg = _too_low("max_records_per_unit", needed.max_records_per_unit, most)
        raise BeyondDeclaration(msg)


def _too_low(key: str, asked: int, least: int) -> str:
    return f"mechanism.{key} must be at least {least} on this data set, and is {asked}"
