"""The sliced Gaussian's divergence again, in 40 digits, for the second opinion.

Nothing is shared with `sliced.py`: the moment is mpmath's hypergeometric function, the sum over the
sample includes its first two terms, and the overflow is mixed before the logarithm.
"""

from __future__ import annotations

import functools
import math

import mpmath

from curator.privacy.event import SampledSlicedGaussianEvent, SlicedGaussianEvent

_DIGITS = 40
_MANY = 10**8


def sliced_by_definition(
    event: SlicedGaussianEvent | SampledSlicedGaussianEvent, alpha: float
) -> float:
    """Return log A / (alpha - 1); at fractional orders, sampled, the chord of log A."""
    with mpmath.workdps(_DIGITS):
        if isinstance(event, SlicedGaussianEvent):
            return float(mpmath.log(_moment(event, mpmath.mpf(alpha), 1)) / (alpha - 1))
        below = math.floor(alpha)
        log_below = mpmath.log(_mixed(event, below))
        if below == alpha:
            return float(log_below / (alpha - 1))
        log_above = mpmath.log(_mixed(event, below + 1))
        chord = log_below + (alpha - below) * (log_above - log_below)
        p = mpmath.mpf(event.overflow_probability)
        unsampled = (1 - p) * _moment(event.base, mpmath.mpf(alpha), 1)
        if p:
            unsampled += p * _moment(event.base, mpmath.mpf(alpha), 2)
        return float(min(chord, mpmath.log(unsampled)) / (alpha - 1))


def _mixed(event: SampledSlicedGaussianEvent, alpha: int) -> mpmath.mpf:
    p = mpmath.mpf(event.overflow_probability)
    usual = (1 - p) * _sampled(event, alpha, 1)
    return usual + p * _sampled(event, alpha, 2) if p else usual


def _sampled(event: SampledSlicedGaussianEvent, alpha: int, row_scale: int) -> mpmath.mpf:
    q = mpmath.mpf(float(event.sampling_rate))
    return mpmath.fsum(
        mpmath.binomial(alpha, j)
        * (1 - q) ** (alpha - j)
        * q**j
        * _moment(event.base, mpmath.mpf(j), row_scale)
        for j in range(alpha + 1)
    )


@functools.lru_cache(maxsize=1 << 13)
def _moment(event: SlicedGaussianEvent, alpha: mpmath.mpf, row_scale: int) -> mpmath.mpf:
    t = alpha * (alpha - 1) * row_scale**2 / (2 * mpmath.mpf(event.noise_multiplier) ** 2)
    half = mpmath.mpf(event.dimension) / 2
    kummer = mpmath.hyp1f1(mpmath.mpf(0.5), half, t, maxterms=_MANY)
    return kummer**event.num_projections
