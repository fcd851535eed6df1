"""Closed upper bounds of the sampled Gaussian's divergence at the three fractional orders.

With y = L - 1 and m_j = E_Q[y^j] there are two ways to bound A = E_Q[L^a] for 1 < a < 4 by
quantities at integers, and the smaller is taken.

The chord. (a - 1) rho(a) = log A is convex in a and zero at a = 1, so it lies below the chord
between the neighbouring integers. For small q the chord is 3% high at 3.5 and 33% at 1.5.

The quartic. A polynomial P with P(L) >= L^a for every L >= 0 gives A <= E_Q[P(L)]:

- 2 < a < 3: the cubic Taylor polynomial at 1. Its remainder is f''''(xi) y^4 / 4! with
  f'''' = a (a-1) (a-2) (a-3) xi^(a-4) < 0.
- otherwise: the cubic Taylor polynomial plus d y^4 with d such that P(0) = 0. P - L^a is then a
  combination of the five powers L, L^2, L^3, L^4, L^a, which has at most four positive roots
  (Descartes' rule holds for real exponents), and it has all four at 1. So it never changes its
  sign, which is that of its leading coefficient d: d = 1/16 at 1.5 and 5/16 at 3.5.

P agrees with L^a up to the third moment, so the bound is within m_4 / m_2 of the truth, and m_4
is of order q^4. The moments are m_j = q^j mu_j with x = exp(1/z^2) and
mu_2 = x - 1,  mu_3 = (x - 1)^2 (x + 2),  mu_4 = (x - 1)^2 (x^4 + 2 x^3 + 3 x^2 - 3).
"""

from __future__ import annotations

import math
from typing import Final

from curator.accounting.rdp import sampled_gaussian_rdp

_MAX_RATE: Final = 0.5  # beyond, the quartic gains nothing and is not convex in L everywhere
_MAX_EXPONENT: Final = 100.0  # 1 / z^2 beyond which the moments might overflow


def fractional_rdp_bound(sampling_rate: float, noise_multiplier: float, alpha: float) -> float:
    """Return an upper bound of the divergence of the Poisson-sampled Gaussian.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: A fractional order: 1.5, 2.5 or 3.5 for the quartic, any for the chord.

    Returns:
        At least the divergence, up to float rounding far below 1e-10 relative.
    """
    chord = _chord(sampling_rate, noise_multiplier, alpha)
    exponent = 1.0 / (noise_multiplier * noise_multiplier)
    if alpha not in {1.5, 2.5, 3.5} or sampling_rate > _MAX_RATE or exponent > _MAX_EXPONENT:
        return chord
    return min(chord, _quartic(sampling_rate, exponent, alpha))


def _chord(q: float, z: float, alpha: float) -> float:
    """Return the divergence on the chord of log A between the integers around `alpha`."""
    below = math.floor(alpha)
    at_below = (below - 1) * sampled_gaussian_rdp(q, z, below) if below > 1 else 0.0
    at_above = below * sampled_gaussian_rdp(q, z, below + 1)
    return (at_below + (alpha - below) * (at_above - at_below)) / (alpha - 1.0)


def _quartic(q: float, exponent: float, alpha: float) -> float:
    """Return log E_Q[P(L)] / (a - 1) for the polynomial of the module's docstring."""
    second = alpha * (alpha - 1.0) / 2.0
    third = second * (alpha - 2.0) / 3.0
    fourth = 0.0 if 2 < alpha < 3 else alpha - 1.0 - second + third
    x, gap = math.exp(exponent), math.expm1(exponent)
    moment_2 = q * q * gap
    moment_3 = q**3 * gap * gap * (x + 2.0)
    moment_4 = q**4 * gap * gap * (x**4 + 2.0 * x**3 + 3.0 * gap * (x + 1.0))
    excess = second * moment_2 + third * moment_3 + fourth * moment_4
    return math.log1p(excess) / (alpha - 1.0)
