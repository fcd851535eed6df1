"""Figures of attacks with what chance gives: intervals of counts, and shuffles of who was used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and what holds it with a probability of 95 percent."""

    value: float
    low: float
    high: float
    counts: str = ""  # of a proportion: how many of how many

    @classmethod
    def of_count(cls, hits: int, trials: int) -> Interval:
        """Return a proportion with the interval of Clopper and Pearson.

        Args:
            hits: Of the trials, which are independent.
            trials: At least 1.

        References:
            [clopper:34].
        """
        side = (1 - CONFIDENCE) / 2
        low = float(betaincinv(hits, trials - hits + 1, side)) if hits else 0.0
        high = float(betaincinv(hits + 1, trials - hits, 1 - side)) if hits < trials else 1.0
        return cls(hits / trials, low, high, f"{hits:,} of {trials:,}")

    @classmethod
    def least_above(cls, chance: float, trials: int) -> str:
        """Return from which proportion on an interval would be above chance, in percent.

        Args:
            chance: In (0, 1).
            trials: At least 1.
        """
        hits = next((k for k in range(trials + 1) if cls.of_count(k, trials).low > chance), None)
        return "never" if hits is None else f"{100 * hits / trials:.1f}%"

    def is_above(self, chance: float) -> bool:
        """Whether the whole interval is."""
        return self.low > chance

    def percent(self) -> str:
        """Return it as text, in percent."""
        text = f"{100 * self.value:.1f}% [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{text}, {self.counts}" if self.counts else text

    def plain(self) -> str:
        """Return it as text."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Shuffled:
    """A figure, and the middle and 95 percent of what it is if real images change sides at random.

    Which images were used is then known by nobody, whatever else is: the comparison is exact for
    any synthetic images, however many of them lie at one place.
    """

    value: float
    chance: Interval

    @classmethod
    def among(cls, value: float, shuffled: npt.NDArray[np.float64]) -> Shuffled:
        """Compare a figure with those of shuffled sides."""
        side = (1 - CONFIDENCE) / 2
        low, middle, high = np.quantile(shuffled, [side, 0.5, 1 - side])
        return cls(float(value), Interval(float(middle), float(low), float(high)))


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table: what was measured, with its interval, and what chance gives."""

    name: str
    measured: str
    by_chance: str = ""
    worse: Literal["", "above", "below"] = ""  # which side of chance would be a leak

    def line(self) -> str:
        """Return it as text."""
        chance = (
            f"; by chance {self.by_chance}, suspicious if {self.worse}" if self.by_chance else ""
        )
        return f"{self.name}: {self.measured}{chance}"


def half(trials: int) -> str:
    """Return what guesses are by chance, and from where on they would be an alarm."""
    return f"50%, an alarm from {Interval.least_above(0.5, trials)} on"
