"""The moments of a Poisson-sampled release from those of the release itself, at integer orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_LOG_EXPM1_LINEAR: Final = 1.0  # below: log(expm1(x)) directly, above: x + log1p(-exp(-x))


def log_sampled_excess(sampling_rate: float, alpha: int, log_moments: Sequence[float]) -> float:
    """Return log(A - 1), where A is the moment of order `alpha` of the sampled release.

    A - 1 = sum over i >= 2 of C(a, i) (1-q)^(a-i) q^i (M_i - 1). Every term is positive, so no
    digits cancel; terms are added in the log domain, so none overflows.

    Args:
        sampling_rate: q in (0, 1).
        alpha: Integer order, at least 2.
        log_moments: log M_i = log E_Q[(dP/dQ)^i] for i = 2 .. alpha, each positive.

    Returns:
        The logarithm; never NaN for finite input.

    References:
        [mironov:19], Section 3.3.
    """
    log_q, log_rest = math.log(sampling_rate), math.log1p(-sampling_rate)
    logs = [
        math.log(math.comb(alpha, i)) + (alpha - i) * log_rest + i * log_q + log_expm1(moment)
        for i, moment in zip(range(2, alpha + 1), log_moments, strict=True)
    ]
    top = max(logs)
    return top + math.log(math.fsum(math.exp(term - top) for term in logs))


def log_expm1(x: float) -> float:
    """Return log(exp(x) - 1) for x > 0 without overflow."""
    if x < _LOG_EXPM1_LINEAR:
        return math.log(math.expm1(x))
    return x + math.log1p(-math.exp(-x))
