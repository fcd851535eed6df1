"""An upper bound of the sampled Gaussian's divergence at a fractional order, for the ledger.

Two bounds, of which the smaller is taken:

- The quadrature of `quadrature.py`, at a noise multiplier that is smaller by a relative 1e-9. The
  noise that is drawn is discrete; it is a post-processing of a continuous Gaussian whose standard
  deviation is smaller by a relative 5e-10 (ACCOUNTING 5.2), so the continuous divergence there is
  an upper bound.
- The chord. (a - 1) rho(a) = log A is convex in a and zero at a = 1, so it lies below the chord
  between the neighbouring integers, whose moments the discrete Gaussian shares exactly.
"""

from __future__ import annotations

import math
from typing import Final

from curator.accounting.quadrature import sampled_gaussian_rdp_at
from curator.accounting.rdp import sampled_gaussian_rdp

_DISCRETENESS: Final = 1 - 1e-9


def fractional_rdp_bound(sampling_rate: float, noise_multiplier: float, alpha: float) -> float:
    """Return an upper bound of the divergence of the Poisson-sampled discrete Gaussian.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: A fractional order above 1.

    Returns:
        At least the divergence, up to float rounding below 1e-10 relative, which the caller's
        inflation by 1e-9 covers.

    References:
        [canonne:20], Proposition 5 for integer orders.
    """
    chord = _chord(sampling_rate, noise_multiplier, alpha)
    exact = sampled_gaussian_rdp_at(sampling_rate, noise_multiplier * _DISCRETENESS, alpha)
    return min(chord, exact)


def _chord(q: float, z: float, alpha: float) -> float:
    """Return the divergence on the chord of log A between the integers around `alpha`."""
    below = math.floor(alpha)
    at_below = (below - 1) * sampled_gaussian_rdp(q, z, below) if below > 1 else 0.0
    at_above = below * sampled_gaussian_rdp(q, z, below + 1)
    return (at_below + (alpha - below) * (at_above - at_below)) / (alpha - 1.0)
