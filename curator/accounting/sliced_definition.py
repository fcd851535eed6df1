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
    """Return log A / (alpha - 1); at fractional orders, sampled, the least charged bound."""
    with mpmath.workdps(_DIGITS):
        a = mpmath.mpf(alpha)
        if isinstance(event, SlicedGaussianEvent):
            return float(mpmath.log(_moment(event, a, 1)) / (a - 1))
        below = math.floor(alpha)
        if below == alpha:
            return float(mpmath.log(_mixed(event, below)) / (a - 1))
        p = mpmath.mpf(event.overflow_probability)
        unsampled = (1 - p) * _moment(event.base, a, 1)
        if p:
            unsampled += p * _moment(event.base, a, 2)
        return float(mpmath.log(min(unsampled, *_chords(event, a))) / (a - 1))


def _chords(event: SampledSlicedGaussianEvent, alpha: mpmath.mpf) -> list[mpmath.mpf]:
    """Return A on the chord of log A, and on that of log((A - 1) / (a (a - 1)))."""
    below = int(mpmath.floor(alpha))
    share = alpha - below
    left, right = _mixed(event, below), _mixed(event, below + 1)
    chords = [left ** (1 - share) * right**share]
    rest = 1 - mpmath.mpf(float(event.sampling_rate))
    if below > 1:
        c_left = (left - 1) / (below * (below - 1))
        c_right = (right - 1) / (below * (below + 1))
        chords.append(1 + alpha * (alpha - 1) * c_left ** (1 - share) * c_right**share)
    elif rest > 0:
        chords.append(1 + alpha * (alpha - 1) * (right - 1) / 2 * rest ** (alpha - 2))
    return chords


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
