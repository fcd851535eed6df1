"""One Gaussian release of a function of a fresh Poisson sample of the units.

In the formulas q is the sampling rate, z the noise multiplier, a the order, r = dP/dQ the ratio
of N(1, z^2) to N(0, z^2), L = 1 - q + q r, and A = E_Q[L^a] = exp((a - 1) rho(a)).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import mpmath

from curator.accounting.events.base import LoneEvent, PoissonGaussian
from curator.accounting.profile_composition import (
    DISCRETENESS,
    MIN_NOISE_MULTIPLIER,
    Profiles,
    fits_a_grid,
    sampled_gaussian_profiles,
)
from curator.accounting.rdp import gaussian_rdp
from curator.accounting.sampled_rdp import log1p_exp, log_sampled_excess, sampled_gaussian_rdp_at
from curator.privacy.event_numbers import SamplingRate, check_noise_multiplier

_DIGITS: Final = 40
_REACH: Final = 14

_FINE: Final = 5e-5
_COARSE: Final = 1e-4  # finer than 2e-5 the add direction drifts by cancellation
_FINE_FROM: Final = 0.5
_BLOCK: Final = 16
_FEW: Final = 3000  # dp-accounting keeps at most a thousand losses as a small distribution


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledGaussianEvent(LoneEvent):
    """One Gaussian release of a function of a fresh Poisson sample of the units."""

    name: ClassVar[str] = "sampled-gaussian"

    sampling_rate: SamplingRate
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the multiplier.

        Raises:
            ValueError: If the multiplier is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`: a sum at integer orders, by quadrature elsewhere.

        References:
            [mironov:19], Section 3.3.
        """
        return sampled_gaussian_at(float(self.sampling_rate), self.noise_multiplier, alpha)

    def rdp_bound(self, alpha: float) -> float:
        """See `LoneEvent`; the noise that is drawn is discrete, which fractional orders notice."""
        return sampled_gaussian_bound(float(self.sampling_rate), self.noise_multiplier, alpha)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`."""
        return by_definition(float(self.sampling_rate), self.noise_multiplier, alpha)

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`."""
        if self.noise_multiplier < MIN_NOISE_MULTIPLIER:
            return None
        return sampled_gaussian_profiles(float(self.sampling_rate), self.noise_multiplier)

    def composed_epsilon(self, num_uses: int, delta: float, ceiling: float) -> float | None:
        """See `PrivacyEvent`; by dp-accounting, both directions of add-or-remove-one."""
        rate, z = float(self.sampling_rate), self.noise_multiplier
        if rate >= 1:  # Gaussians compose exactly
            z, num_uses = z / math.sqrt(num_uses) * (1 - 1e-12), 1
        return library_epsilon(rate, z, num_uses, delta, ceiling)

    @property
    def elsewhere(self) -> PoissonGaussian:
        """See `LoneEvent`."""
        return PoissonGaussian(
            sampling_rate=float(self.sampling_rate), noise_multiplier=self.noise_multiplier
        )

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            "Gaussian release of a function of a fresh Poisson sample, rate "
            f"{float(self.sampling_rate):.6g}, noise std / sensitivity {self.noise_multiplier:g}"
        )


def by_definition(rate: float, noise_multiplier: float, alpha: float) -> float:
    """Return log E_Q[L^a] / (a - 1) in 40 digits.

    At integer orders a sum over how often the unit is in a sample, from its first term on; between
    them E_Q[L^a - 1 - a (L - 1)] is integrated.
    """
    if rate >= 1:
        return gaussian_rdp(noise_multiplier, alpha)
    is_sum = alpha == int(alpha)
    lost = -2 * math.floor(math.log10(rate)) if is_sum else 0  # A - 1 is of the order of q^2
    with mpmath.workdps(_DIGITS + lost):
        q, z, a = (mpmath.mpf(value) for value in (rate, noise_multiplier, alpha))
        if is_sum:
            moment = mpmath.fsum(
                mpmath.binomial(a, j)
                * (1 - q) ** (a - j)
                * q**j
                * mpmath.exp(j * (j - 1) / (2 * z * z))
                for j in range(int(alpha) + 1)
            )
            return float(mpmath.log(moment) / (a - 1))

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * z * z))
            return (ratio**a - 1 - a * (ratio - 1)) * mpmath.npdf(x, 0, z)

        marks = {_REACH * z * k / 7 + shift for k in range(-7, 8) for shift in (0, a)}
        excess = mpmath.quad(integrand, sorted(marks), method="gauss-legendre")
        return float(mpmath.log1p(excess) / (a - 1))


def sampled_gaussian_at(q: float, z: float, alpha: float) -> float:
    """Return the divergence of the Poisson-sampled Gaussian at a real order."""
    if q >= 1:
        return gaussian_rdp(z, alpha)
    if alpha == int(alpha):
        return sampled_gaussian_rdp(q, z, int(alpha))
    return sampled_gaussian_rdp_at(q, z, alpha)


def sampled_gaussian_bound(q: float, z: float, alpha: float) -> float:
    """Return an upper bound for discrete noise: the least of those that hold."""
    unsampled = gaussian_rdp(z, alpha)  # sampling never costs more than not sampling
    if q >= 1:
        return unsampled
    if alpha == int(alpha):
        return min(sampled_gaussian_rdp(q, z, int(alpha)), unsampled)
    return min(fractional_rdp_bound(q, z, alpha), unsampled)


def sampled_gaussian_rdp(sampling_rate: float, noise_multiplier: float, alpha: int) -> float:
    """Return the divergence of the Poisson-sampled Gaussian at an integer order.

    A - 1 = sum over i >= 2 of C(a, i) (1-q)^(a-i) q^i expm1(i (i-1) / (2 z^2)). Every term is
    positive, so no digits cancel; terms are added in the log domain, so none overflows. The
    logarithm of a term is at most some 1e4 in size where it matters, so its rounding error is
    below 1e-11: the result is within 1e-10 relative of the truth.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: Order, at least 2.

    Returns:
        The divergence, never NaN.

    References:
        [mironov:19], Section 3.3.
    """
    scale = 1.0 / (2.0 * noise_multiplier * noise_multiplier)
    moments = [i * (i - 1) * scale for i in range(2, alpha + 1)]
    log_excess = log_sampled_excess(sampling_rate, alpha, moments)
    return log1p_exp(log_excess) / (alpha - 1)


def fractional_rdp_bound(sampling_rate: float, noise_multiplier: float, alpha: float) -> float:
    """Return an upper bound of the divergence of the Poisson-sampled discrete Gaussian.

    The smaller of two:

    - The quadrature of `quadrature.py`, at a noise multiplier that is smaller by a relative 1e-9.
      The noise that is drawn is discrete; it is a post-processing of a continuous Gaussian whose
      standard deviation is smaller by a relative 5e-10 (ACCOUNTING 5.2), so the continuous
      divergence there is an upper bound.
    - The chord. (a - 1) rho(a) = log A is convex in a and zero at a = 1, so it lies below the chord
      between the neighbouring integers, whose moments the discrete Gaussian shares exactly.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: A fractional order above 1.

    Returns:
        At least the divergence, up to float rounding below 1e-10 relative.

    References:
        [canonne:20], Proposition 5 for integer orders.
    """
    chord = _chord(sampling_rate, noise_multiplier, alpha)
    exact = sampled_gaussian_rdp_at(sampling_rate, noise_multiplier * DISCRETENESS, alpha)
    return min(chord, exact)


def _chord(q: float, z: float, alpha: float) -> float:
    """Return the divergence on the chord of log A between the integers around `alpha`."""
    below = math.floor(alpha)
    at_below = (below - 1) * sampled_gaussian_rdp(q, z, below) if below > 1 else 0.0
    at_above = below * sampled_gaussian_rdp(q, z, below + 1)
    return (at_below + (alpha - below) * (at_above - at_below)) / (alpha - 1.0)


def library_epsilon(
    rate: float, noise_multiplier: float, num_steps: int, delta: float, ceiling: float
) -> float | None:
    """Return the epsilon of composed sampled Gaussians by dp-accounting, the worse direction.

    Returns:
        None where it would take gigabytes.
    """
    if noise_multiplier < MIN_NOISE_MULTIPLIER or not fits_a_grid(ceiling, num_steps, delta):
        return None
    losses = _losses(rate, noise_multiplier, num_steps)
    return max(0.0, float(losses.get_epsilon_for_delta(delta)))


@functools.lru_cache(maxsize=1)  # megabytes; the same releases are often asked at several deltas
def _losses(rate: float, noise_multiplier: float, num_steps: int) -> Any:
    """Return the distribution of the losses of composed sampled Gaussians, of dp-accounting."""
    from dp_accounting.pld import privacy_loss_distribution  # a second to import

    interval = _FINE if noise_multiplier >= _FINE_FROM else _COARSE
    one = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        pessimistic_estimate=True,
        value_discretization_interval=interval,
        sampling_prob=rate,
    )
    if num_steps < _BLOCK or _loss_range(rate, noise_multiplier) > _FEW * interval:
        return one.self_compose(num_steps)
    # dp-accounting raises the size of a small distribution to the power num_steps, in digits:
    # a block of steps first makes it large.
    whole, rest = divmod(num_steps, _BLOCK)
    total = one.self_compose(_BLOCK, tail_mass_truncation=0).self_compose(whole)
    return total.compose(one.self_compose(rest)) if rest else total


def _loss_range(q: float, z: float) -> float:
    """Return about the width of one step's losses, from -10 to +10 standard deviations."""
    if q >= 1:
        return 20.0 / z
    low = math.log1p(q * math.expm1(min(700.0, (-20.0 * z - 1.0) / (2.0 * z * z))))
    high = math.log1p(q * math.expm1(min(700.0, (20.0 * z + 1.0) / (2.0 * z * z))))
    return high - low
