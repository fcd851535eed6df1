"""Renyi divergence of a sum over a fresh Poisson sample, when the sample may not fit its places.

One unit adds a vector of norm at most D to the sum, and noise has standard deviation z D. Fix the
rest T of the sample and where it stands. If T leaves a place, the unit moves the sum by D at most.
Else, with probability at most p, it may replace others, and the sum moves by 2 D at most. The two
laws are means over T of (1 - q) Q + q P and Q, and the moment of order a is jointly convex, so
A <= (1 - p) A(z) + p A(z / 2), at every order and in both directions.
"""

from __future__ import annotations

import math

from curator.accounting.poisson import log_expm1
from curator.accounting.quadrature import log1p_exp


def mixed_rdp(within: float, beyond: float, overflow: float, alpha: float) -> float:
    """Return the divergence whose moment is a mean of two moments.

    Args:
        within: Divergence where the sample fits, positive.
        beyond: Divergence where it may not.
        overflow: Weight p of `beyond`, in [0, 1].
        alpha: Their order, above 1.

    Returns:
        log((1 - p) exp((a - 1) within) + p exp((a - 1) beyond)) / (a - 1), without overflow and
        relatively accurate where it is small.
    """
    if overflow == 0:
        return within
    if overflow >= 1:
        return beyond
    first = math.log1p(-overflow) + log_expm1((alpha - 1.0) * within)
    second = math.log(overflow) + log_expm1((alpha - 1.0) * beyond)
    top = max(first, second)
    log_excess = top + math.log(math.exp(first - top) + math.exp(second - top))
    return log1p_exp(log_excess) / (alpha - 1.0)
