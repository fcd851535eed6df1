"""The table inversion is exact, also where 63 bits do not decide."""

from __future__ import annotations

import bisect
import functools

import numpy as np
import pytest

from curator.sanitizer.gaussian import discrete_gaussian, invert, one_sided_cdf
from tests.fakes.noise import SeededNoise
from tests.reference import golden_rows

SIGN = 1 << 63


def refuse(count: int) -> np.ndarray:
    raise AssertionError("the first 63 bits decide here")


@functools.cache
def table() -> list[int]:
    return [value >> 1 for value in one_sided_cdf()[:-1]]


def exact(word: int, low: int) -> int:
    """Invert the 191-bit table by definition."""
    magnitude = bisect.bisect_right(table(), ((word & (SIGN - 1)) << 128) | low)
    return -magnitude if word & SIGN else magnitude


@pytest.mark.golden
def test_the_table_has_the_independent_values() -> None:
    (row,) = golden_rows("table")
    words = one_sided_cdf(bits=128)
    assert len(words) == row["params"]["entries"]
    for index, word in row["value"].items():
        assert abs(words[int(index)] - int(word, 16)) <= row["atol"]


def test_random_words_are_inverted_by_definition() -> None:
    words = SeededNoise(1).words(20_000)
    expected = [exact(int(word), 0) for word in words]
    assert invert(words, refuse).tolist() == expected


def test_extreme_words() -> None:
    words = np.array([0, SIGN, SIGN - 1, 2**64 - 1], dtype=np.uint64)
    largest = invert(words, lambda count: np.full(count, 2**64 - 1, dtype=np.uint64))
    assert largest.tolist() == [exact(int(word), 2**128 - 1) for word in words]
    assert largest[2] > 16 * 512  # the tail goes on to where 191 bits end


def test_the_longer_table_continues_the_shorter_one() -> None:
    for shorter, longer in zip(one_sided_cdf(bits=128)[:-1], one_sided_cdf(), strict=False):
        assert abs((shorter << 64) - longer) <= 1 << 63


@pytest.mark.parametrize("index", [0, 1, 511, 3000, 6000])
@pytest.mark.parametrize("sign", [0, SIGN])
def test_words_on_a_boundary_are_refined(index: int, sign: int) -> None:
    boundary = one_sided_cdf()[index] >> 1
    high, low = boundary >> 128, boundary & (2**128 - 1)
    upper = low >> 64 << 64  # agrees in the first of two more words
    for refinement in (0, max(low - 1, 0), low, upper, upper | (2**64 - 1), 2**128 - 1):
        asked = []

        def refine(count: int, value: int = refinement) -> np.ndarray:
            asked.append(count)  # noqa: B023
            return np.array([value >> 64, value & (2**64 - 1)] * (count // 2), dtype=np.uint64)

        drawn = invert(np.array([high | sign], dtype=np.uint64), refine)
        assert drawn.tolist() == [exact(high | sign, refinement)]
        assert asked == [2]


def test_two_draws_make_one_value() -> None:
    words = SeededNoise(2).words(20)
    draws = invert(words, refuse)
    values = discrete_gaussian(10, lambda _: words, refuse)
    assert values.tolist() == (128 * draws[:10] + draws[10:]).tolist()
