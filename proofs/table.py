"""Every word of the noise's table is right, by interval arithmetic on integers alone.

A number is a pair of integers, in units of 2^-PRECISION, between which the true value lies. It
begins with e^-y as an alternating series and goes on with sums and products rounded outward, so
nothing rests on how accurate a library is, nor on how the code computes the same table: of the code
it reads the finished tables and asks for draws. Production builds one table only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

import numpy as np

from proofs.copied import module
from proofs.subjects import GAUSSIAN

PRECISION: Final = 640
ONE: Final = 1 << PRECISION
STD: Final = 512
STRIDE: Final = 128
TABLE_BITS: Final = 192
DRAWN_BITS: Final = 191
LARGEST_DISTANCE: Final = Fraction(1, 1 << 177)  # of one X, in total variation: gaussian.py
LARGEST_RIPPLE: Final = Fraction(1, 1 << 450)  # of 128 X1 + X2, relative: gaussian.py
_MOST: Final = 24 * STD  # e^-288: beyond, a weight is below 2^-415

_SIGN: Final = np.uint64(1 << 63)

Interval = tuple[int, int]


def exp_minus(y: Fraction) -> Interval:
    """Return e^-y for 0 < y <= 1, between two sums of its alternating series."""
    total, term, sign = Fraction(0), Fraction(1), 1
    for n in range(1, PRECISION):
        total += sign * term
        term, sign = term * y / n, -sign
        if term * ONE < 1:
            break
    ends = total, total + sign * term
    return int(min(ends) * ONE), int(max(ends) * ONE) + 1


def plus(a: Interval, b: Interval) -> Interval:
    """Return the sum."""
    return a[0] + b[0], a[1] + b[1]


def times(a: Interval, b: Interval) -> Interval:
    """Return the product of two numbers that are not negative."""
    return a[0] * b[0] >> PRECISION, -(-a[1] * b[1] >> PRECISION)


def over(a: Interval, b: Interval) -> Interval:
    """Return the quotient of two positive numbers."""
    return (a[0] << PRECISION) // b[1], -((-a[1] << PRECISION) // b[0])


def to_squares(rate: Interval, most: int) -> list[Interval]:
    """Return rate^(m^2) for m = 0 .. most: the step to the next has an odd exponent."""
    powers, step, twice = [(ONE, ONE)], rate, times(rate, rate)
    for _ in range(most):
        powers.append(times(powers[-1], step))
        step = times(step, twice)
    return powers


@cache
def law() -> list[Interval]:
    """Return P(|X| = m) for m = 0, 1, ..., and at the end what is left for all larger ones."""
    rate = exp_minus(Fraction(1, 2 * STD * STD))
    one_side = to_squares(rate, _MOST)
    weights = [one_side[0], *(plus(one, one) for one in one_side[1:_MOST])]
    # from m to m + 1 a weight falls by rate^(2 m + 1), which is at most 31/32 from here on
    if 32 * one_side[_MOST][1] > 31 * one_side[_MOST - 1][0]:
        msg = "the tail is not as short as a geometric series"
        raise ArithmeticError(msg)
    rest = 0, 64 * one_side[_MOST][1]
    total = rest
    for weight in weights:
        total = plus(total, weight)
    return [over(weight, total) for weight in (*weights, rest)]


def wrong_words(table: Sequence[int], probabilities: Sequence[Interval]) -> list[str]:
    """Return a line if not every word is round(2^192 P(|X| <= m)), or words are missing.

    Args:
        table: As `one_sided_cdf` returns it: the last word is 2^192 itself.
        probabilities: Those of `law`.
    """
    below, lines = (0, 0), []
    for m, word in enumerate(table):
        below = plus(below, probabilities[m])
        nearest = {(2 * (end << TABLE_BITS) + ONE) // (2 * ONE) for end in below}
        if nearest != {word}:
            lines.append(f"word {m} of the table is not the nearest to P(|X| <= {m})")
    if table[-1] != 1 << TABLE_BITS:
        lines.append("the table does not end with a certain event")
    return lines[:3]


def distance(boundaries: Sequence[int], probabilities: Sequence[Interval]) -> Fraction:
    """Return an upper bound of the total variation between what is drawn and the law.

    Args:
        boundaries: |X| is the number of them that are not above a uniform integer below 2^191.
        probabilities: Those of `law`.
    """
    edges = [0, *boundaries, 1 << DRAWN_BITS]
    drawn = [(upper - lower) << PRECISION - DRAWN_BITS for lower, upper in pairwise(edges)]
    drawn += [0] * (len(probabilities) - len(drawn))
    pairs = zip(drawn, probabilities, strict=True)
    return Fraction(sum(max(high - one, one - low) for one, (low, high) in pairs), 2 * ONE)


def wrong_draws(gaussian: ModuleType) -> list[str]:
    """Return a line if words are not inverted as the boundaries say.

    The words are all at which the answer can change: both ends of every bucket, every boundary's
    first 63 bits with their neighbours, and where these decide nothing, four ways to go on.
    """
    boundaries = gaussian.inversion_entries()
    low_bits = DRAWN_BITS - 63
    lasts = {one >> low_bits: one & (1 << low_bits) - 1 for one in boundaries}
    ends = range(0, 1 << 63, 1 << 63 - 16)
    near = {top + step for top in lasts for step in (-1, 0, 1)}
    near |= {end + step for end in ends for step in (-1, 0)}
    words = np.array(sorted(one for one in near if 0 <= one < 1 << 63), dtype=np.uint64)
    for choose in (lambda last: last - 1, lambda last: last, lambda last: last + 1, lambda _: 0):
        tails = [choose(lasts[one]) % (1 << low_bits) for one in words.tolist() if one in lasts]
        halves = np.array([half for one in tails for half in divmod(one, 1 << 64)], dtype=np.uint64)
        rest = iter(tails)
        whole = [one << low_bits | (next(rest) if one in lasts else 0) for one in words.tolist()]
        right = [bisect_right(boundaries, one) for one in whole]
        positive = gaussian.invert(words, lambda size, halves=halves: halves[:size])
        negative = gaussian.invert(words | _SIGN, lambda size, halves=halves: halves[:size])
        if positive.tolist() != right or (-negative).tolist() != right:
            return ["a word is not inverted as the boundaries say"]
    return []


def ripple() -> Fraction:
    """Return an upper bound of how far P(128 X1 + X2 = n) is from the wide law, relative.

    With N = 128^2 + 1 it is exp(-n^2 / (2 N 512^2)) times theta(128 n / N), and theta(c), the sum
    over all k of exp(-(k - c)^2 N / (2 512^2)), depends on 128 n modulo N alone. So there are N
    values j / N of c, of which j and N - j have the same, and

        theta(j / N) = e^(-j^2 / (2 N 512^2)) sum over k of e^(-k^2 N / (2 512^2)) e^(j k / 512^2).
    """
    size = STRIDE**2 + 1
    most = 112  # terms with |k| below; from here on each is less than half of the one before
    squares = to_squares(exp_minus(Fraction(size, 2 * STD * STD)), most)
    of_j = to_squares(exp_minus(Fraction(1, 2 * size * STD * STD)), size // 2)
    lean, values = exp_minus(Fraction(1, STD * STD)), []
    shrink = (ONE, ONE)  # exp(-j / 512^2)
    for j in range(size // 2 + 1):
        total, down, up = (ONE, ONE), (ONE, ONE), (ONE, ONE)
        grow = over((ONE, ONE), shrink)
        for k in range(1, most):
            down, up = times(down, shrink), times(up, grow)
            total = plus(total, times(squares[k], plus(down, up)))
        rest = times(squares[most], times(up, grow))
        total = plus(total, (0, 4 * rest[1]))
        values.append(times(of_j[j], total))
        shrink = times(shrink, lean)
    return Fraction(max(high for _, high in values), min(low for low, _ in values)) - 1


def check(root: Path) -> list[str]:
    """Return what is wrong with the table, and with what is drawn by it.

    Args:
        root: Of the repository, or of a copy.
    """
    gaussian = module(root / GAUSSIAN)
    probabilities = law()
    if lines := wrong_words(gaussian.one_sided_cdf(), probabilities):
        return lines
    lines = wrong_draws(gaussian)
    if distance(gaussian.inversion_entries(), probabilities) > LARGEST_DISTANCE:
        lines.append("what is drawn is further from the law than 2^-177")
    words = np.arange(1, 201, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # anything
    draws = gaussian.invert(words, _no_more)
    sums = gaussian.discrete_gaussian(100, lambda _: words, _no_more)
    if sums.tolist() != (STRIDE * draws[:100] + draws[100:]).tolist():
        lines.append("two draws are not put together as 128 X1 + X2")
    return lines


def check_sum() -> list[str]:
    """Return what is wrong with the law of two draws together."""
    return [] if ripple() <= LARGEST_RIPPLE else ["128 X1 + X2 is further from the law than 2^-450"]


def _no_more(size: int) -> NoReturn:
    msg = f"the first 63 bits should decide, and {size} more words are asked for"
    raise ArithmeticError(msg)
