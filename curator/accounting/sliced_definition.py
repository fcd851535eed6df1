"""The sliced Gaussian's divergence again, in 40 digits, for the second opinion.

Nothing is shared with `events/sliced_gaussian.py`: the moment is mpmath's hypergeometric function,
the sum over the sample includes its first two terms, and the overflow is mixed before the
logarithm.
"""

from __future__ import annotations

import functools
import math

import mpmath

_DIGITS = 40
_MANY = 10**8

SlicedNumbers = tuple[int, int, float]
"""Coordinates of a row, projections, and noise standard deviation over the row's norm."""


def sliced_by_definition(base: SlicedNumbers, alpha: float) -> float:
    """Return log A / (alpha - 1)."""
    with mpmath.workdps(_DIGITS):
        a = mpmath.mpf(alpha)
        return float(mpmath.log(_moment(base, a, 1)) / (a - 1))


def sampled_sliced_by_definition(
    base: SlicedNumbers, rate: float, overflow: float, alpha: float
) -> float:
    """Return log A / (alpha - 1); at fractional orders the least charged bound."""
    with mpmath.workdps(_DIGITS):
        a, q, p = mpmath.mpf(alpha), mpmath.mpf(rate), mpmath.mpf(overflow)

        def mixed(order: int) -> mpmath.mpf:
            usual = (1 - p) * _sampled(base, q, order, 1)
            return usual + p * _sampled(base, q, order, 2) if p else usual

        below = math.floor(alpha)
        if below == alpha:
            return float(mpmath.log(mixed(below)) / (a - 1))
        unsampled = (1 - p) * _moment(base, a, 1)
        if p:
            unsampled += p * _moment(base, a, 2)
        chords = _chords((mixed(below), mixed(below + 1)), q, a)
        return float(mpmath.log(min(unsampled, *chords)) / (a - 1))


def _chords(
    ends: tuple[mpmath.mpf, mpmath.mpf], q: mpmath.mpf, alpha: mpmath.mpf
) -> list[mpmath.mpf]:
    """Return A on the chord of log A, and on that of log((A - 1) / (a (a - 1)))."""
    below = int(mpmath.floor(alpha))
    share = alpha - below
    left, right = ends
    chords = [left ** (1 - share) * right**share]
    rest = 1 - q
    if below > 1:
        c_left = (left - 1) / (below * (below - 1))
        c_right = (right - 1) / (below * (below + 1))
        chords.append(1 + alpha * (alpha - 1) * c_left ** (1 - share) * c_right**share)
    elif rest > 0:
        chords.append(1 + alpha * (alpha - 1) * (right - 1) / 2 * rest ** (alpha - 2))
    return chords


def _sampled(base: SlicedNumbers, q: mpmath.mpf, alpha: int, row_scale: int) -> mpmath.mpf:
    return mpmath.fsum(
        mpmath.binomial(alpha, j)
        * (1 - q) ** (alpha - j)
        * q**j
        * _moment(base, mpmath.mpf(j), row_scale)
        for j in range(alpha + 1)
    )


@functools.lru_cache(maxsize=1 << 13)
def _moment(base: SlicedNumbers, alpha: mpmath.mpf, row_scale: int) -> mpmath.mpf:
    dimension, num_projections, noise_multiplier = base
    t = alpha * (alpha - 1) * row_scale**2 / (2 * mpmath.mpf(noise_multiplier) ** 2)
    kummer = mpmath.hyp1f1(mpmath.mpf(0.5), mpmath.mpf(dimension) / 2, t, maxterms=_MANY)
    return kummer**num_projections
