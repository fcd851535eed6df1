"""How often a Poisson sample may not fit the places that are kept for it."""

from __future__ import annotations

import math
from fractions import Fraction

from curator.privacy.event_numbers import SamplingRate

_ROUNDING = 1e-6  # of the probability: lgamma of at most 1e10 is exact to 1e-5 relative


def overflow_probability(max_size: int, sampling_rate: SamplingRate, capacity: int) -> float:
    """Return at least the probability that a Poisson sample fills `capacity` slots.

    The ratio of successive binomial probabilities falls, so from k = capacity on the tail is at
    most a geometric series. The first term is taken from lgamma and inflated.

    Args:
        max_size: Declared upper bound of the number of units; fewer units overflow less.
        sampling_rate: q.
        capacity: Number of slots.

    Returns:
        A number in [0, 1]; 1 where the capacity is not above the mean.

    Raises:
        ValueError: If a size is not an integer in [1, 2**32].
    """
    for size in (max_size, capacity):
        if type(size) is not int or not 1 <= size <= 1 << 32:
            msg = "max_size and capacity must be integers in [1, 2**32]"
            raise ValueError(msg)
    q = sampling_rate.exact
    if capacity > max_size:
        return 0.0
    ratio = Fraction(max_size - capacity) * q / ((capacity + 1) * (1 - q)) if q < 1 else Fraction(1)
    if ratio >= 1:
        return 1.0
    log_choose = (
        math.lgamma(max_size + 1) - math.lgamma(capacity + 1) - math.lgamma(max_size - capacity + 1)
    )
    rate = float(q)
    log_first = log_choose + capacity * math.log(rate) + (max_size - capacity) * math.log1p(-rate)
    slack = _ROUNDING + 1e-14 * abs(math.lgamma(max_size + 1))
    return min(1.0, math.exp(log_first + slack) / (1.0 - float(ratio)) * (1 + 1e-9))
