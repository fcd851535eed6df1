"""What an accountant must know of one use of the private data; frozen and complete.

`noise_multiplier` is always noise standard deviation divided by the sensitivity of the noised
vector under the data set's adjacency (for a whole batch clipped to C, sensitivity is 2C).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

_SCALE = 1 << 64

MIN_NOISE_MULTIPLIER = 1e-2
MAX_NOISE_MULTIPLIER = 1e6
MAX_STEPS = 10**9
MAX_DIMENSION = 1 << 20


def check_noise_multiplier(noise_multiplier: float) -> None:
    """Refuse a noise multiplier that no accountant should see.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity, dimensionless.

    Raises:
        ValueError: If it is not a finite number in [1e-2, 1e6].
    """
    if isinstance(noise_multiplier, bool) or not isinstance(noise_multiplier, int | float):
        msg = "noise_multiplier must be a number"
        raise ValueError(msg)  # noqa: TRY004 - one error type for one bad field
    if not MIN_NOISE_MULTIPLIER <= noise_multiplier <= MAX_NOISE_MULTIPLIER:  # NaN fails too
        msg = f"noise_multiplier must be in [{MIN_NOISE_MULTIPLIER:g}, {MAX_NOISE_MULTIPLIER:g}]"
        raise ValueError(msg)


def check_num_steps(num_steps: int) -> None:
    """Refuse an absurd number of compositions.

    Raises:
        ValueError: If it is not an integer in [1, 1e9].
    """
    if isinstance(num_steps, bool) or not isinstance(num_steps, int):
        msg = "num_steps must be an integer"
        raise ValueError(msg)  # noqa: TRY004
    if not 1 <= num_steps <= MAX_STEPS:
        msg = f"num_steps must be in [1, {MAX_STEPS}]"
        raise ValueError(msg)


def check_dimension(name: str, value: int) -> None:
    """Refuse an absurd number of coordinates or projections.

    Raises:
        ValueError: If it is not an integer in [1, 2**20].
    """
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{name} must be an integer"
        raise ValueError(msg)  # noqa: TRY004
    if not 1 <= value <= MAX_DIMENSION:
        msg = f"{name} must be in [1, {MAX_DIMENSION}]"
        raise ValueError(msg)


def check_probability(name: str, value: float) -> None:
    """Refuse what is not a probability.

    Raises:
        ValueError: If it is not a number in [0, 1].
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{name} must be a number"
        raise ValueError(msg)  # noqa: TRY004
    if not 0 <= value <= 1:  # NaN fails too
        msg = f"{name} must be in [0, 1]"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class SamplingRate:
    """A probability numerator / 2**64 that the sampler realises exactly and the accountant charges.

    One object serves both, so the rate that is charged is the rate that is used.
    """

    numerator: int

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            ValueError: If the rate is not in (0, 1].
        """
        if isinstance(self.numerator, bool) or not isinstance(self.numerator, int):
            msg = "sampling_rate must be a dyadic number"
            raise ValueError(msg)  # noqa: TRY004
        if not 0 < self.numerator <= _SCALE:
            msg = "sampling_rate must be in (0, 1]"
            raise ValueError(msg)

    @classmethod
    def at_least(cls, rate: float | Fraction) -> Self:
        """Return the smallest dyadic rate that is not below `rate`.

        Raises:
            ValueError: If `rate` is not a finite number in (0, 1].
        """
        if not 0 < rate <= 1:  # NaN fails too
            msg = "sampling_rate must be in (0, 1]"
            raise ValueError(msg)
        return cls(math.ceil(Fraction(rate) * _SCALE))

    @property
    def exact(self) -> Fraction:
        """The rate as an exact fraction."""
        return Fraction(self.numerator, _SCALE)

    def __float__(self) -> float:
        """Return a float that is not below the exact rate."""
        nearest = self.numerator / _SCALE
        if Fraction(nearest) < self.exact:
            nearest = math.nextafter(nearest, math.inf)
        return nearest


@dataclass(frozen=True, slots=True)
class NoEvent:
    """Nothing private is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianEvent:
    """One Gaussian release of a function of all units."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the multiplier.

        Raises:
            ValueError: If the multiplier is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledGaussianEvent:
    """One Gaussian release of a function of a fresh Poisson sample of the units."""

    sampling_rate: SamplingRate
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the multiplier.

        Raises:
            ValueError: If the multiplier is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlicedGaussianEvent:
    """Projections of rows on fresh uniform unit vectors, with Gaussian noise on every entry.

    One unit is one row of `dimension` coordinates and norm at most R; without it the row is zero.
    `noise_multiplier` is the noise standard deviation over R: what a neighbour changes is the
    row's projection, which is random and shorter. The `num_projections` vectors are released too,
    are drawn after the rows are fixed, and are never used twice.
    """

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


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSlicedGaussianEvent:
    """The sliced Gaussian of a fresh Poisson sample in random slots of a padded matrix.

    `overflow_probability` is at least the probability that the slots of one step are full, for
    the largest declared number of units; then a row may be replaced, which moves twice as far.
    """

    sampling_rate: SamplingRate
    base: SlicedGaussianEvent
    overflow_probability: float

    def __post_init__(self) -> None:
        """Check the probability.

        Raises:
            ValueError: If it is out of range.
        """
        check_probability("overflow_probability", self.overflow_probability)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSumEvent:
    """Gaussian releases in a row, each of a sum over its own fresh Poisson sample of the units.

    One unit adds a vector of norm at most D to a sum; `noise_multiplier` is over D. Each release
    may depend on those before it. `overflow_probability` is at least the probability that a sample
    leaves no place for a further unit, for the largest declared number of units; then one may
    replace others, which moves the sum by 2 D at most.
    """

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


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenPartEvent:
    """One Gaussian release of a function of one of `num_parts` parts, drawn uniformly in secret.

    A neighbour changes one part. `noise_multiplier` is over what two parts' answers may differ by,
    whatever the parts are. Which part is drawn is never told, and nothing else depends on it.
    """

    num_parts: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        check_dimension("num_parts", self.num_parts)
        check_noise_multiplier(self.noise_multiplier)


@dataclass(frozen=True, kw_only=True, slots=True)
class SumsThenGaussianEvent:
    """Sampled sums in a row, then one Gaussian release of a function of all units.

    The last release may depend on the sums; `noise_multiplier` is its own.
    """

    sums: SampledSumEvent
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the multiplier.

        Raises:
            ValueError: If the multiplier is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)


LoneEvent = (
    NoEvent
    | GaussianEvent
    | HiddenPartEvent
    | SampledGaussianEvent
    | SampledSumEvent
    | SlicedGaussianEvent
    | SampledSlicedGaussianEvent
)
"""What is not made of other events."""

PrivacyEvent = LoneEvent | SumsThenGaussianEvent


def parts_of(event: PrivacyEvent) -> tuple[LoneEvent, ...]:
    """Return the events of one use in their order; most are alone.

    Args:
        event: One use; of its parts, each may depend on what those before it released.
    """
    if isinstance(event, SumsThenGaussianEvent):
        return event.sums, GaussianEvent(noise_multiplier=event.noise_multiplier)
    return (event,)
