"""Bounds of the replace-one relation, which no ledger of this version offers; for tests only.

A replace-one ledger would charge `Mixture.rdp(alpha, "replace")` for sampling with or without
replacement, or the closed forms below at integer orders. `log_moments[j]` is log M_j, the j-th
moment of the release without sampling at replace-one sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import mpmath

_DIGITS = 60


def closed_form_rdp(q: float, alpha: int, log_moments: Mapping[int, float]) -> float:
    """Return log(A of the Poisson sample + C(a, 2) q^2 (M_2 - 1)) / (a - 1)."""
    with mpmath.workdps(_DIGITS):
        excess = _pairs(q, alpha) * mpmath.expm1(log_moments[2])
        for j in range(2, alpha + 1):
            weight = (
                mpmath.binomial(alpha, j) * mpmath.mpf(q) ** j * mpmath.mpf(1 - q) ** (alpha - j)
            )
            excess += weight * mpmath.expm1(log_moments[j])
        return float(mpmath.log1p(excess) / (alpha - 1))


def general_rdp(q: float, alpha: int, log_moments: Mapping[int, float]) -> float:
    """Return Theorem 9 of Wang, Balle, Kasiviswanathan (2019), without a bound at infinity."""
    with mpmath.workdps(_DIGITS):
        second = mpmath.exp(log_moments[2])
        excess = _pairs(q, alpha) * min(4 * (second - 1), 2 * second)
        for j in range(3, alpha + 1):
            weight = 2 * mpmath.binomial(alpha, j) * mpmath.mpf(q) ** j
            excess += weight * mpmath.exp(log_moments[j])
        return float(mpmath.log1p(excess) / (alpha - 1))


def gaussian_rdp(q: float, alpha: int, noise_multiplier: float) -> float:
    """Return Theorem 27 of the same paper for the Gaussian, with its forward differences.

    B(l) = sum over i of (-1)^i C(l, i) M_i is the l-th difference of the moments; odd l take the
    geometric mean of their even neighbours.
    """
    with mpmath.workdps(_DIGITS + 2 * alpha):
        scale = 1 / (2 * mpmath.mpf(noise_multiplier) ** 2)

        def moment(j: int) -> mpmath.mpf:
            return mpmath.exp(j * (j - 1) * scale)

        def difference(order: int) -> mpmath.mpf:
            terms = ((-1) ** i * mpmath.binomial(order, i) * moment(i) for i in range(order + 1))
            return abs(mpmath.fsum(terms))

        excess = _pairs(q, alpha) * min(4 * (moment(2) - 1), 2 * moment(2))
        for j in range(3, alpha + 1):
            even = mpmath.sqrt(difference(2 * (j // 2)) * difference(2 * math.ceil(j / 2)))
            weight = mpmath.binomial(alpha, j) * mpmath.mpf(q) ** j
            excess += weight * min(4 * even, 2 * moment(j))
        return float(mpmath.log1p(excess) / (alpha - 1))


def _pairs(q: float, alpha: int) -> mpmath.mpf:
    return mpmath.binomial(alpha, 2) * mpmath.mpf(q) ** 2
