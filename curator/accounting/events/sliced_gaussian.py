"""The sliced Gaussian: projections of rows on fresh directions, all of them noised.

Given the k directions U, a row z of norm R moves the output by |z^T U|, so the moment of order a is
E_U exp(a (a - 1) |z^T U|^2 / (2 s^2)). |z^T U|^2 = R^2 (b_1 + ... + b_k) with b_j independent
Beta(1/2, (d - 1) / 2), whose exponential moment is Kummer's function: M_a = 1F1(1/2; d/2; t)^k at
t = a (a - 1) R^2 / (2 s^2). This is an equality for continuous noise at every real order, grows
with R, and stays an upper bound for the discrete Gaussian, an equality at integers
[canonne:20, proposition 5].

A Poisson sample in random slots changes by one row when a unit is added or removed: the slots of
the others have the same law with and without it. If the slots are full, which has probability at
most p, a row may be replaced and moves by at most 2 R. By joint convexity of the moment,
A <= (1 - p) A(R) + p A(2 R). Removing is the worse direction for every U, hence on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

from curator.accounting.events.base import LoneEvent
from curator.accounting.hypergeometric import log_1f1
from curator.accounting.profile_composition import MIN_NOISE_MULTIPLIER, Profiles
from curator.accounting.sampled_rdp import log1p_exp, log_expm1, log_sampled_excess
from curator.accounting.sliced_definition import (
    SlicedNumbers,
    sampled_sliced_by_definition,
    sliced_by_definition,
)
from curator.accounting.sliced_pld import sliced_profiles
from curator.privacy.event_numbers import (
    SamplingRate,
    check_dimension,
    check_noise_multiplier,
    check_probability,
)

_FAR = 60.0
_SMALL_SHARE = 0.01
_CLOSE = 1e-9
_LOG_ROOT_PI = 0.5 * math.log(math.pi)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SlicedGaussianEvent(LoneEvent):
    """Projections of rows on fresh uniform unit vectors, with Gaussian noise on every entry.

    One unit is one row of `dimension` coordinates and norm at most R; without it the row is zero.
    `noise_multiplier` is the noise standard deviation over R: what a neighbour changes is the
    row's projection, which is random and shorter. The `num_projections` vectors are released too,
    are drawn after the rows are fixed, and are never used twice.
    """

    name: ClassVar[str] = "sliced-gaussian"

    dimension: int
    num_projections: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            ValueError: If one is out of range.
        """
        check_dimension("dimension", self.dimension)
        check_dimension("num_projections", self.num_projections)
        check_noise_multiplier(self.noise_multiplier)

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`; within 1e-13 relative.

        References:
            [rakotomamonjy:21]; the exact curve is derived in this module's docstring.
        """
        return log_sliced_moment(self, alpha) / (alpha - 1.0)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`."""
        return sliced_by_definition(self._numbers, alpha)

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`."""
        return self.profiles_of_sample(1.0, 0.0)

    def profiles_of_sample(self, rate: float, overflow: float) -> Profiles | None:
        """Return the profiles if rows come from a Poisson sample."""
        length = math.sqrt(self.num_projections / self.dimension)
        if self.noise_multiplier < MIN_NOISE_MULTIPLIER * length:
            return None
        return sliced_profiles(self._numbers, rate, overflow)

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            f"Gaussian release of {self.num_projections} fresh random projections of rows of "
            f"{self.dimension} coordinates, noise std / row norm {self.noise_multiplier:g}"
        )

    @property
    def _numbers(self) -> SlicedNumbers:
        return self.dimension, self.num_projections, self.noise_multiplier


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSlicedGaussianEvent(LoneEvent):
    """The sliced Gaussian of a fresh Poisson sample in random slots of a padded matrix.

    `overflow_probability` is at least the probability that the slots of one step are full, for
    the largest declared number of units; then a row may be replaced, which moves twice as far.
    """

    name: ClassVar[str] = "sampled-sliced-gaussian"

    sampling_rate: SamplingRate
    base: SlicedGaussianEvent
    overflow_probability: float

    def __post_init__(self) -> None:
        """Check the probability.

        Raises:
            ValueError: If it is out of range.
        """
        check_probability("overflow_probability", self.overflow_probability)

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`; an upper bound where the slots may be full, and at fractional orders."""
        return sampled_sliced_rdp(self, alpha)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`; at fractional orders the least charged bound."""
        base = self.base.dimension, self.base.num_projections, self.base.noise_multiplier
        rate = float(self.sampling_rate)
        return sampled_sliced_by_definition(base, rate, self.overflow_probability, alpha)

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`."""
        return self.base.profiles_of_sample(float(self.sampling_rate), self.overflow_probability)

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            f"{self.base.in_words()}, rows from a fresh Poisson sample, rate "
            f"{float(self.sampling_rate):.6g}, in random slots that are full with probability at "
            f"most {self.overflow_probability:.2g}"
        )

    def to_json(self) -> dict[str, object]:
        """See `PrivacyEvent`; the numbers of the base are not nested."""
        return {
            **self.base.to_json(),
            "event": self.name,
            "overflow_probability": float(self.overflow_probability),
            "sampling_rate": str(self.sampling_rate.numerator),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """See `PrivacyEvent`."""
        return cls(
            sampling_rate=SamplingRate(int(value["sampling_rate"])),
            base=SlicedGaussianEvent.from_json(value),
            overflow_probability=value["overflow_probability"],
        )


def log_sliced_moment(event: SlicedGaussianEvent, alpha: float, row_scale: float = 1.0) -> float:
    """Return log M_alpha for a row of norm `row_scale` times R."""
    z = event.noise_multiplier / row_scale
    t = alpha * (alpha - 1.0) / (2.0 * z * z)
    return event.num_projections * log_projection_moment(event.dimension / 2.0, t)


def log_projection_moment(b: float, t: float) -> float:
    """Return log 1F1(1/2; b; t), and for very large `t` an upper bound that takes no sum.

    1F1(1/2; b; t) = e^t E exp(-t x) with x ~ Beta(b - 1/2, 1/2). Its density is at most
    x^(b - 3/2) (1 - v)^(-1/2) Gamma(b) / (Gamma(b - 1/2) Gamma(1/2)) below any v in (0, 1), and
    what lies above adds at most exp(-t v), so

        E exp(-t x) <= (1 - v)^(-1/2) Gamma(b) / Gamma(1/2) t^(1/2 - b) + exp(-t v).

    With t v = b log t + 60 the bound of log 1F1, which is above t / 2 there, is too large by about
    v / 2; it is used where that is a relative 1e-11, and little noise is then as cheap to price as
    much.

    Args:
        b: At least 1/2.
        t: Non-negative.

    Returns:
        The logarithm within 1e-13 relative, or the bound, at most 2e-11 relative above.
    """
    if b == 0.5:  # one coordinate: a projection keeps the whole length
        return t
    share = (b * math.log(max(t, 1.0)) + _FAR) / max(t, 1.0)
    if not 0 < share <= _SMALL_SHARE * min(1.0, t * _CLOSE):
        return log_1f1(b, t)
    main = math.lgamma(b) - _LOG_ROOT_PI - (b - 0.5) * math.log(t) - 0.5 * math.log1p(-share)
    return t + main + math.log1p(math.exp(min(0.0, -t * share - main)))


def sampled_sliced_rdp(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return an upper bound of the divergence of the sampled sliced Gaussian.

    At integer orders and without overflow it is an equality for the worst data. Between them it is
    the least of three upper bounds, of which the last decides unless nearly all units are sampled:

    - the divergence without sampling;
    - the chord of log A between the neighbouring integers, as log A is convex in a, 0 at a = 1;
    - the chord of log C with C = (A - 1) / (a (a - 1)). With y = L - 1, where L is the ratio of the
      densities and E y = 0, C = E[y^2 * integral_0^1 (1 - t) (1 + t y)^(a - 2) dt]: a mixture of
      exponentials in a, whose logarithm is convex. Below a = 2 there is no integer to the left;
      there (1 + t y)^(a - 2) <= (1 - q)^(a - 2), since y >= -q, so C <= (1 - q)^(a - 2) C(2).

    All three hold for every pair of distributions, so for discrete noise, and for mixtures over
    samples, slots, directions and overflow; they grow with what is put in at the integers.

    Returns:
        The bound, up to float rounding below 1e-10 relative, which the charge's inflation covers.
    """
    if alpha == int(alpha):
        return log1p_exp(_log_excess(event, int(alpha))) / (alpha - 1.0)
    unsampled = log1p_exp(_unsampled(event, alpha))
    return min(_between(event, alpha), unsampled) / (alpha - 1.0)


def _between(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return the lesser chord of log A at a fractional order."""
    below = math.floor(alpha)
    share = alpha - below
    above = _log_excess(event, below + 1)
    left = _log_excess(event, below) if below > 1 else -math.inf
    chord = (1.0 - share) * log1p_exp(left) + share * log1p_exp(above)
    rate = float(event.sampling_rate)
    if below > 1:
        at_left = left - math.log(below * (below - 1))
        at_right = above - math.log((below + 1) * below)
        log_c = (1.0 - share) * at_left + share * at_right
    elif rate < 1:
        log_c = above - math.log(2.0) + (alpha - 2.0) * math.log1p(-rate)
    else:
        return chord
    return min(chord, log1p_exp(log_c + math.log(alpha * (alpha - 1.0))))


def _log_excess(event: SampledSlicedGaussianEvent, alpha: int) -> float:
    """Return log(A - 1) at an integer order, with the overflow mixed in."""
    q = float(event.sampling_rate)
    if q >= 1:
        return _unsampled(event, alpha)

    def sampled(row_scale: float) -> float:
        moments = [log_sliced_moment(event.base, float(i), row_scale) for i in range(2, alpha + 1)]
        return log_sampled_excess(q, alpha, moments)

    return _mixed(event.overflow_probability, sampled)


def _unsampled(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return log(M - 1) as if every unit were in the sample, with the overflow mixed in."""

    def excess(row_scale: float) -> float:
        return log_expm1(log_sliced_moment(event.base, alpha, row_scale))

    return _mixed(event.overflow_probability, excess)


def _mixed(overflow: float, log_excess: Callable[[float], float]) -> float:
    """Return log((1 - p) E(R) + p E(2 R)) from log E at a multiple of the row norm."""
    if overflow == 0:
        return log_excess(1.0)
    full = math.log(overflow) + log_excess(2.0)
    if overflow >= 1:
        return full
    rest = math.log1p(-overflow) + log_excess(1.0)
    top = max(full, rest)
    return top + math.log(math.exp(full - top) + math.exp(rest - top))
