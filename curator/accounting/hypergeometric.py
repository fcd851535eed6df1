"""The logarithm of Kummer's function 1F1(1/2; b; t), which the sliced Gaussian's moments are.

1F1(1/2; b; t) = sum over n of T(n), T(0) = 1, T(n+1) / T(n) = t (n + 1/2) / ((b + n) (n + 1)).
All terms are positive. With m the place of the largest one, the terms within 10 sqrt(t) + 60 of m
are summed relative to T(m), by products of the ratios outward from it; log T(m) itself is
evaluated in 40 digits. Around m the logarithm of the ratio falls by about 1 / (b + n) <= 1 / t per
term, so what lies outside is below e^-49 of the sum. A product of N ratios is off by at most
4 N ulps, N below 10 sqrt(t) + 60: relative to the logarithm, which is of the order of t where t is
large, that is below 1e-13, and 1e-14 as measured.
"""

from __future__ import annotations

import functools
import math
from typing import Final

import mpmath
import numpy as np

_DIGITS: Final = 40
_MAX_ARGUMENT: Final = 1e11  # the largest that an event can ask for is below; an array of megabytes


@functools.lru_cache(maxsize=1 << 14)
def log_1f1(b: float, t: float) -> float:
    """Return log 1F1(1/2; b; t) without overflow and without loss of digits for small `t`.

    Args:
        b: At least 1/2.
        t: Non-negative.

    Returns:
        The logarithm, within about 1e-14 relative.

    Raises:
        ValueError: If an argument is out of range or not finite.
    """
    if not 0.5 <= b < math.inf or not 0 <= t <= _MAX_ARGUMENT:  # NaN fails too
        msg = f"expected b >= 1/2 and 0 <= t <= {_MAX_ARGUMENT:g}, both finite"
        raise ValueError(msg)
    if t == 0:
        return 0.0
    top = _largest_term(b, t)
    reach = math.ceil(10.0 * math.sqrt(t)) + 60
    above = _sum_of_products(_ratios(b, t, np.arange(top, top + reach, dtype=np.float64)))
    if top == 0:
        return math.log1p(above)
    down = np.arange(top - 1, max(top - reach, 0) - 1, -1, dtype=np.float64)
    below = _sum_of_products(1.0 / _ratios(b, t, down))
    return float(_log_term(b, t, top) + math.log1p(above + below))


def _largest_term(b: float, t: float) -> int:
    """Return where the ratio of terms falls through one, or 0 where it never exceeds one."""
    half = (t - b - 1.0) / 2.0
    discriminant = half * half - (b - t / 2.0)
    if discriminant <= 0 or half + math.sqrt(discriminant) <= 0:
        return 0
    return math.ceil(half + math.sqrt(discriminant))


def _ratios(b: float, t: float, n: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray:
    return t * (n + 0.5) / ((b + n) * (n + 1.0))


def _sum_of_products(ratios: np.ndarray) -> float:
    return float(np.sum(np.cumprod(ratios)))


def _log_term(b: float, t: float, n: int) -> mpmath.mpf:
    with mpmath.workdps(_DIGITS):
        half, b_, t_ = mpmath.mpf(0.5), mpmath.mpf(b), mpmath.mpf(t)
        rising = mpmath.loggamma(half + n) - mpmath.loggamma(half)
        falling = mpmath.loggamma(b_ + n) - mpmath.loggamma(b_) + mpmath.loggamma(n + 1)
        return rising - falling + n * mpmath.log(t_)
