"""The size of a Poisson sample: an exact binomial count from a 128-bit table.

Statement and proof: sampling.md. Nothing here is floating point: a float64 inversion is off by
6e-14 in total variation, which 3.4e6 steps at epsilon 10 turn into 4e-3 of delta.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource

TABLE_BITS = 128
TABLE_WORDS = 2
_WORD_BITS = 64
_WEIGHT_BITS = 256  # fixed point of the weights, relative to the mode's
_LEAST_DEPTH = 12  # so that all but very large sets are searched equally deep
_CUT_BITS = 200  # weights below 2^-200 of the mode's are left out, of the largest set allowed
_HIDING = 1 << 512  # added where integers are smaller for some sizes of a set than for others

_Ratio = Callable[[int, int], tuple[int, int]]  # of a mode and a step from it


@dataclass(frozen=True, kw_only=True, slots=True)
class CountTable:
    """Entry i is floor(2^128 P(count > lowest + i)), descending; padded with zeros to 2^d - 1."""

    lowest: int
    entries: tuple[int, ...]

    def invert(self, word: int) -> int:
        """Return the count of a uniform 128-bit integer: how many k have word < 2^128 P(count > k).

        Args:
            word: In [0, 2^128).

        Returns:
            The count; d comparisons are made whatever it is.
        """
        found, step = 0, (len(self.entries) + 1) // 2
        while step:
            found += step * (word < self.entries[found + step - 1])
            step //= 2
        return self.lowest + found


@functools.lru_cache(maxsize=16)
def count_table(num_units: int, rate: SamplingRate, max_units: int) -> CountTable:
    """Return the table of Bin(num_units, rate), computed with integers alone.

    Args:
        num_units: Units in the data set; private.
        rate: Below 1.
        max_units: Public upper bound of them.

    Returns:
        The table, kept for every later step. How many entries it has, and how many integers of
        which length are divided for it, follows from the rate and the bound.
    """
    down, up = _reach(max_units, rate.numerator)
    mode = _mode(num_units, rate.numerator)
    weights = [
        *_fall(mode, down, functools.partial(_below, num_units, rate.numerator))[::-1],
        1 << _WEIGHT_BITS,
        *_fall(mode, up, functools.partial(_above, num_units, rate.numerator)),
    ]
    above = list(accumulate(reversed(weights)))[::-1]  # above[i]: the weights from entry i on
    entries = [_rounded_down(part, above[0]) for part in above[1:]]
    length = (1 << max(len(entries).bit_length(), _LEAST_DEPTH)) - 1
    padding = (0,) * (length - len(entries))
    return CountTable(lowest=mode - down, entries=(*entries, *padding))


@functools.lru_cache(maxsize=16)
def _reach(max_units: int, taken: int) -> tuple[int, int]:
    """Return how far below and above the mode counts matter, of so many units or fewer.

    The weights of fewer units fall as fast, but for one step: see sampling.md.
    """
    mode, least = _mode(max_units, taken), 1 << (_WEIGHT_BITS - _CUT_BITS)
    reach = []
    for ratio, most in ((_below, mode), (_above, max_units - mode)):
        weights = _fall(mode, most, functools.partial(ratio, max_units, taken), least)
        reach.append(len(weights) + 1)
    return reach[0], reach[1]


def _mode(num_units: int, taken: int) -> int:
    return (num_units + 1) * taken >> _WORD_BITS


def _below(num_units: int, taken: int, mode: int, step: int) -> tuple[int, int]:
    """Return P(count - 1) / P(count) at `step` below the mode, 0 from the count 0 on."""
    count = max(mode - step, 0)
    return count * ((1 << _WORD_BITS) - taken), (num_units - count + 1) * taken


def _above(num_units: int, taken: int, mode: int, step: int) -> tuple[int, int]:
    """Return P(count + 1) / P(count) at `step` above the mode, 0 from the last count on."""
    count = min(mode + step, num_units)
    return (num_units - count) * taken, (count + 1) * ((1 << _WORD_BITS) - taken)


def _fall(mode: int, most: int, ratio: _Ratio, least: int = 0) -> list[int]:
    """Return weights going away from the mode, whose weight is 2^256: so many, or to the least.

    Each ratio is at most 1, so a weight is below its exact value by at most one unit for each step
    from the mode. A weight is kept with 2^512 added, so that a small one takes no less time:
    floor((w + 2^512) a / b + 2^512 (b - a) / b) is floor(w a / b) + 2^512.
    """
    weights, weight = [], _HIDING + (1 << _WEIGHT_BITS)
    for step in range(most):
        numerator, denominator = ratio(mode, step)
        rest = (denominator - numerator) * _HIDING
        weight = (weight * numerator + rest) // denominator
        if weight < _HIDING + least:
            break
        weights.append(weight - _HIDING)
    return weights


def _rounded_down(part: int, whole: int) -> int:
    """Return floor(2^128 part / whole), for a small part in the same time."""
    return ((part << TABLE_BITS) + whole * _HIDING) // whole - _HIDING


def draw_count(num_units: int, rate: SamplingRate, noise: NoiseSource, max_units: int) -> int:
    """Draw how many units a Poisson sample has.

    Args:
        num_units: Units in the data set; private.
        rate: Probability of each unit.
        noise: Secret randomness; two words, whatever the rate and the data set.
        max_units: Public upper bound of the units, which decides how much work it is.

    Returns:
        A draw of Bin(num_units, rate), not cut to any capacity.

    Privacy:
        Within t 2^-127 of the exact law in total variation, t the entries of the table:
        sampling.md. There is no other way for large counts, whose cost would tell how many units
        there are to whoever chooses the rate.
    """
    high, low = noise.uniform_words(TABLE_WORDS).numpy().view(np.uint64).tolist()
    if rate.numerator == 1 << _WORD_BITS:
        return num_units
    return count_table(num_units, rate, max_units).invert(high << _WORD_BITS | low)
