"""The smallest noise that a budget affords, by the ledger's own rule and by no other formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.rule import BudgetRule
from curator.privacy.event_numbers import (
    MAX_NOISE_MULTIPLIER,
    MIN_NOISE_MULTIPLIER,
    check_num_steps,
)

_RELATIVE_TOLERANCE: Final = 1e-6


def noise_multiplier_for(
    rule: BudgetRule,
    spent: Cost,
    event_of: Callable[[float], PrivacyEvent],
    num_steps: int,
) -> float:
    """Return a noise multiplier, within 1e-6 above the smallest one, that the budget affords.

    Args:
        rule: The data set's rule.
        spent: Everything already reserved, and the setup cost of the run if it has one.
        event_of: The step's event for a given noise multiplier.
        num_steps: How often the step will be taken.

    Returns:
        A multiplier for which `rule` admits `spent` and all steps; less noise was not admitted.

    Raises:
        ValueError: If no multiplier that an event may have is affordable.
    """
    check_num_steps(num_steps)

    def affordable(noise_multiplier: float) -> bool:
        return rule.admits(spent + event_cost(event_of(noise_multiplier)) * num_steps)

    return least_noise(affordable)


def least_noise_near(
    guess: float, enough: Callable[[float], bool], *, tolerance: float, most: float
) -> float:
    """Return a noise multiplier, within a tolerance above the smallest one, that is enough.

    Args:
        guess: Where to look first; a good one saves questions, which may take long.
        enough: Whether a multiplier is enough; true of everything above one for which it is true.
        tolerance: Relative.
        most: Nothing above it is tried.

    Returns:
        A multiplier for which `enough` was seen to be true.

    Raises:
        ValueError: If `most` is not enough.
    """
    high = min(max(guess, MIN_NOISE_MULTIPLIER), most)
    low = high
    while not enough(high):
        if high >= most:
            msg = "no amount of noise makes these steps affordable"
            raise ValueError(msg)
        low, high = high, min(2 * high, most)
    while low == high or enough(low):
        if low <= MIN_NOISE_MULTIPLIER:
            return MIN_NOISE_MULTIPLIER
        high, low = low, max(low / 2, MIN_NOISE_MULTIPLIER)
    while high > low * (1 + tolerance):
        middle = (low * high) ** 0.5
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def least_noise(enough: Callable[[float], bool]) -> float:
    """Return a noise multiplier, within 1e-6 above the smallest one, that is enough.

    Returns:
        A multiplier for which `enough` was seen to be true.

    Raises:
        ValueError: If no multiplier that an event may have is enough.
    """
    return least_noise_near(1.0, enough, tolerance=_RELATIVE_TOLERANCE, most=MAX_NOISE_MULTIPLIER)
