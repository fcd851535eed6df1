"""The numbers that an event may have; the events are in `curator.accounting.events`."""

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
