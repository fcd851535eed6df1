"""One Gaussian release of a function of one of K parts, drawn uniformly and kept secret.

With q = 1 / K and noise N, the two laws are (1 - q) P0 + q P1 and (1 - q) P0 + q P1', of centres
that are pairwise at most one sensitivity apart: a neighbour changes one part, and so only what is
answered when that part was drawn. Advanced joint convexity [balle:18, theorem 2] gives at t >= 1

    H_t  =  q H_t'(P1 || (1 - b) P0 + b P1')  <=  q H_t'(N(1, z^2) || N(0, z^2)),

t' = 1 + (t - 1) / q, for some b in [0, 1]; the same holds the other way around. The moment of order
a is an integral of H_t over all t, those below one by the other direction, so

    A <= 1 + E_Q[(f(a, L) + f(1 - a, L)) 1{L > 1}],    f(c, L) = L^c - 1 - c (L - 1),

where Q = N(0, z^2) and L = 1 - q + q exp((2 x - 1) / (2 z^2)), which is above one from x = 1/2 on.
Unlike with a Poisson sample, both directions are alike.

f is convex and rises in L > 1, and L is convex in x, so f is below its chord on every cell of a
grid. Chords are averaged exactly: Q's mass on a cell and its centre by Gauss' rule, whose error on
cells of at most z / 64 is below 1e-16. Beyond the grid's end e, both f together are at most a L^a,
and L <= (q + r(e)^-1) r with r = exp((2 x - 1) / (2 z^2)); the average of r^a is known. So the sum
is an upper bound but for rounding, below 1e-9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import mpmath
import numpy as np

from curator.accounting.events.base import LoneEvent
from curator.accounting.profile_composition import (
    DISCRETENESS,
    MIN_NOISE_MULTIPLIER,
    Floats,
    Profiles,
    fits_in_steps,
    fitted_epsilon,
    remove_profile,
)
from curator.accounting.rdp import gaussian_rdp
from curator.accounting.sampled_rdp import log1p_exp
from curator.privacy.event_numbers import check_dimension, check_noise_multiplier

_REACH: Final = 14.0
_PER_CELL: Final = 1.0 / 512  # relative growth of the moment's integrand
_MOST_CELLS: Final = 1 << 16
_ROUNDING: Final = 1e-9
_SERIES_BELOW: Final = 0.05
_SERIES_TERMS: Final = 14
_DIGITS: Final = 40


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenPartEvent(LoneEvent):
    """One Gaussian release of a function of one of `num_parts` parts, drawn uniformly in secret.

    A neighbour changes one part. `noise_multiplier` is over what two parts' answers may differ by,
    whatever the parts are. Which part is drawn is never told, and nothing else depends on it.
    """

    name: ClassVar[str] = "hidden-part"

    num_parts: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        check_dimension("num_parts", self.num_parts)
        check_noise_multiplier(self.noise_multiplier)

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`; an upper bound."""
        return hidden_part_rdp(self.num_parts, self.noise_multiplier, alpha)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`; the bound above, its integral in 40 digits."""
        with mpmath.workdps(_DIGITS):
            q, z, a = (mpmath.mpf(v) for v in (self.num_parts, self.noise_multiplier, alpha))
            q = 1 / q

            def integrand(x: mpmath.mpf) -> mpmath.mpf:
                ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * z * z))
                return (ratio**a + ratio ** (1 - a) - 1 - ratio) * mpmath.npdf(x, 0, z)

            marks = {_REACH * z * k / 7 + shift for k in range(-7, 8) for shift in (0, a)}
            above = [mpmath.mpf(0.5), *sorted(mark for mark in marks if mark > 0.5)]
            excess = mpmath.quad(integrand, above, method="gauss-legendre")
            bound = float(mpmath.log1p(excess) / (a - 1))
            return min(bound, gaussian_rdp(self.noise_multiplier, alpha))

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`; both directions are alike."""
        if self.noise_multiplier < MIN_NOISE_MULTIPLIER:
            return None
        shifts, weights = np.array([1.0 / self.noise_multiplier]), np.array([1.0])

        def changed(losses: Floats) -> Floats:
            return remove_profile(losses, 1.0 / self.num_parts, shifts, weights)

        return Profiles(remove=changed, add=changed)

    def composed_epsilon(self, num_uses: int, delta: float, ceiling: float) -> float | None:
        """See `PrivacyEvent`; too large by about 1e-3 relatively at most, by rounding of losses.

        References:
            [balle:18], theorem 2; [doroshenko:22].
        """
        del ceiling  # the spacing of losses fits what is found
        profiles = self.profiles()
        if profiles is None or not fits_in_steps(num_uses, delta):
            return None
        return fitted_epsilon(profiles.remove, profiles.add, num_uses, delta)

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            f"Gaussian release of a function of one of {self.num_parts:,} parts, drawn in secret, "
            f"noise std / distance of two parts' answers {self.noise_multiplier:g}"
        )


def hidden_part_rdp(num_parts: int, noise_multiplier: float, alpha: float) -> float:
    """Return an upper bound of the divergence, at any real order.

    Args:
        num_parts: K, at least 1.
        noise_multiplier: z, positive: noise over what a part may move the release.
        alpha: Real order above 1.

    Returns:
        At least the bound above, and above it by less than 1e-6 at orders up to 10 and z >= 0.4.

    References:
        [balle:18], theorem 2.
    """
    from scipy.special import log_ndtr  # here: the ledger's commands need no scipy

    unsampled = alpha / (2.0 * noise_multiplier**2)  # secrecy never costs
    if num_parts == 1:
        return unsampled
    q, z = 1.0 / num_parts, noise_multiplier * DISCRETENESS
    high = alpha + _REACH * z
    fine = (high - 0.5) * alpha / (_PER_CELL * z * z)
    coarse = (high - 0.5) * 64.0 / z
    cells = math.ceil(max(coarse, min(fine, _MOST_CELLS)))
    x = np.linspace(0.5, high, cells + 1)
    w = (2.0 * x - 1.0) / (2.0 * z * z)
    log_l = np.logaddexp(math.log1p(-q), math.log(q) + w)
    with np.errstate(over="ignore"):
        log_f = _log_convex(log_l, q * np.expm1(w), alpha)
    low, up = _log_weights(x, z)
    tail = (
        math.log(alpha)
        + alpha * math.log(q + math.exp(-float(w[-1])))
        + alpha * (alpha - 1.0) / (2.0 * z * z)
        + float(log_ndtr((alpha - high) / z))
    )
    logs = np.concatenate((low + log_f[:-1], up + log_f[1:], [tail]))
    top = float(np.max(logs))
    parts = np.sort(np.exp(logs - top))[::-1]  # largest first, `fsum` finds the same sum far sooner
    log_excess = top + math.log(math.fsum(parts.tolist()) * (1.0 + _ROUNDING))
    return min(unsampled, log1p_exp(log_excess) / (alpha - 1.0))


def _log_convex(log_l: Floats, y: Floats, alpha: float) -> Floats:
    """Return log(f(a, L) + f(1 - a, L)), with y = L - 1; by its power series where y is small.

    The sum is L^a + L^(1 - a) - 2 - y.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        series = np.zeros_like(y)
        first, second = alpha, 1.0 - alpha
        for j in range(2, _SERIES_TERMS):
            first, second = first * (alpha - j + 1) / j, second * (2.0 - alpha - j) / j
            series += (first + second) * y ** (j - 2)
        near = np.log(series) + 2.0 * np.log(y)
        rest = np.exp((1.0 - alpha) * log_l) - 2.0 - y
        far = alpha * log_l + np.log1p(rest * np.exp(-alpha * log_l))
        huge = alpha * log_l + math.log(2.0)
        close = y * (alpha + _SERIES_TERMS) < _SERIES_BELOW
    return np.asarray(np.where(close, near, np.where(np.isfinite(far), far, huge)))


def _log_weights(x: Floats, z: float) -> tuple[Floats, Floats]:
    """Return the logarithms of what each cell's chord gives its two ends."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    share = (nodes + 1.0) / 2.0
    width = float(x[1] - x[0])
    places = x[:-1, None] + width * share
    height = x[:-1, None] ** 2 / (2.0 * z * z)
    density = np.exp(height - places**2 / (2.0 * z * z)) * (weights / 2.0)
    scale = math.log(width / (z * math.sqrt(2.0 * math.pi))) - height[:, 0]
    low, up = density @ (1.0 - share), density @ share
    return scale + np.log(low), scale + np.log(up)
