"""Gaussian releases in a row, each of a sum over its own Poisson sample, which may not fit.

One unit adds a vector of norm at most D to the sum, and noise has standard deviation z D. Fix the
rest T of the sample and where it stands. If T leaves a place, the unit moves the sum by D at most.
Else, with probability at most p, it may replace others, and the sum moves by 2 D at most. The two
laws are means over T of (1 - q) Q + q P and Q, and the moment of order a is jointly convex, so
A <= (1 - p) A(z) + p A(z / 2), at every order and in both directions.

Whether the sample fits is told to whoever sees the loss, which only makes it worse; then the
profile is a mean of two Gaussians' with weights 1 - p and p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import mpmath

from curator.accounting.events.base import LoneEvent, PoissonGaussian
from curator.accounting.events.sampled_gaussian import (
    by_definition,
    sampled_gaussian_at,
    sampled_gaussian_bound,
)
from curator.accounting.profile_composition import (
    MIN_NOISE_MULTIPLIER,
    Profiles,
    sampled_gaussian_profiles,
)
from curator.accounting.sampled_rdp import log1p_exp, log_expm1
from curator.privacy.event_numbers import (
    SamplingRate,
    check_dimension,
    check_noise_multiplier,
    check_probability,
)

_DIGITS: Final = 40


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSumEvent(LoneEvent):
    """Gaussian releases in a row, each of a sum over its own fresh Poisson sample of the units.

    One unit adds a vector of norm at most D to a sum; `noise_multiplier` is over D. Each release
    may depend on those before it. `overflow_probability` is at least the probability that a sample
    leaves no place for a further unit, for the largest declared number of units; then one may
    replace others, which moves the sum by 2 D at most.
    """

    name: ClassVar[str] = "sampled-sum"

    sampling_rate: SamplingRate
    noise_multiplier: float
    overflow_probability: float
    num_releases: int

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)
        check_probability("overflow_probability", self.overflow_probability)
        check_dimension("num_releases", self.num_releases)

    @property
    def repeats(self) -> int:
        """See `LoneEvent`."""
        return self.num_releases

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`; an upper bound where a sample may not fit."""
        q, z = float(self.sampling_rate), self.noise_multiplier
        within, beyond = sampled_gaussian_at(q, z, alpha), sampled_gaussian_at(q, z / 2, alpha)
        return mixed_rdp(within, beyond, self.overflow_probability, alpha)

    def rdp_bound(self, alpha: float) -> float:
        """See `LoneEvent`."""
        q, z = float(self.sampling_rate), self.noise_multiplier
        within = sampled_gaussian_bound(q, z, alpha)
        beyond = sampled_gaussian_bound(q, z / 2, alpha)
        return mixed_rdp(within, beyond, self.overflow_probability, alpha)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`; the overflow is mixed before the logarithm."""
        q, z = float(self.sampling_rate), self.noise_multiplier
        within, beyond = by_definition(q, z, alpha), by_definition(q, z / 2, alpha)
        with mpmath.workdps(_DIGITS):
            p, a = mpmath.mpf(self.overflow_probability), mpmath.mpf(alpha)
            first, second = (mpmath.exp((a - 1) * divergence) for divergence in (within, beyond))
            return float(mpmath.log((1 - p) * first + p * second) / (a - 1))

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`.

        References:
            [zhu:22], Theorem 11; [balle:18], Theorem 2.
        """
        if self.noise_multiplier < 2 * MIN_NOISE_MULTIPLIER:  # that of an overflow is half of it
            return None
        return sampled_gaussian_profiles(
            float(self.sampling_rate), self.noise_multiplier, self.overflow_probability
        )

    @property
    def elsewhere(self) -> PoissonGaussian:
        """See `LoneEvent`."""
        return PoissonGaussian(
            sampling_rate=float(self.sampling_rate),
            noise_multiplier=self.noise_multiplier,
            is_all=self.overflow_probability == 0,
        )

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            f"{self.num_releases} Gaussian release{'s' * (self.num_releases > 1)} of a sum over a "
            f"fresh Poisson sample, rate {float(self.sampling_rate):.6g}, noise std / sensitivity "
            f"{self.noise_multiplier:g}, that may not fit with probability at most "
            f"{self.overflow_probability:.2g}"
        )


def mixed_rdp(within: float, beyond: float, overflow: float, alpha: float) -> float:
    """Return the divergence whose moment is a mean of two moments.

    Args:
        within: Divergence where the sample fits, positive.
        beyond: Divergence where it may not.
        overflow: Weight p of `beyond`, in [0, 1].
        alpha: Their order, above 1.

    Returns:
        log((1 - p) exp((a - 1) within) + p exp((a - 1) beyond)) / (a - 1), without overflow and
        relatively accurate where it is small.
    """
    if overflow == 0:
        return within
    if overflow >= 1:
        return beyond
    first = math.log1p(-overflow) + log_expm1((alpha - 1.0) * within)
    second = math.log(overflow) + log_expm1((alpha - 1.0) * beyond)
    top = max(first, second)
    log_excess = top + math.log(math.exp(first - top) + math.exp(second - top))
    return log1p_exp(log_excess) / (alpha - 1.0)
