"""The count of a Poisson sample has the binomial law, by exact arithmetic and by counting."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data import binomial
from curator.data.binomial import count_table, draw_count
from curator.privacy.event_numbers import SamplingRate
from tests.fakes.noise import NoNoise, SeededNoise

SMALL = [(1, 1 << 63), (2, 1), (5, (1 << 63) + 5), (9, (1 << 64) - 1), (40, 12345678901234567)]


class Words:
    """Gives the words it was made with and remembers how many were asked for."""

    def __init__(self, *words: int) -> None:
        self.words = np.array(words, dtype=np.uint64)
        self.asked: list[int] = []

    def uniform_words(self, num_words: int) -> Tensor:
        self.asked.append(num_words)
        taken, self.words = self.words[:num_words], self.words[num_words:]
        return torch.from_numpy(taken.view(np.int64).copy())

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise AssertionError("sampling draws no noise")


def probabilities(num_units: int, rate: Fraction) -> list[Fraction]:
    """Return the binomial law by its definition."""
    return [
        math.comb(num_units, k) * rate**k * (1 - rate) ** (num_units - k)
        for k in range(num_units + 1)
    ]


def law_of_table(
    num_units: int, rate: SamplingRate, max_units: int | None = None
) -> dict[int, Fraction]:
    """Return the law that inverting a uniform 128-bit integer has."""
    table = count_table(num_units, rate, max_units or num_units)
    above = [1 << 128, *table.entries, 0]
    law = {
        table.lowest + i: Fraction(above[i] - above[i + 1], 1 << 128) for i in range(len(above) - 1)
    }
    return {count: probability for count, probability in law.items() if probability}


@pytest.mark.parametrize("max_units", [40, 47, 4000])
@pytest.mark.parametrize(("num_units", "numerator"), [(0, 5), *SMALL])
def test_the_table_is_the_law_rounded_down(num_units: int, numerator: int, max_units: int) -> None:
    """Whatever the declared bound is; counts below 0 and above N have no weight."""
    rate = SamplingRate(numerator)
    law = probabilities(num_units, rate.exact)
    table = count_table(num_units, rate, max_units)
    for count in range(num_units + 1):
        exact = sum(law[count + 1 :], Fraction(0)) * (1 << 128)
        place = count - table.lowest
        if place < 0:
            assert (1 << 128) - exact < 2
        else:
            entry = table.entries[place] if place < len(table.entries) else 0
            assert -1 < exact - entry < 2
    drawn = law_of_table(num_units, rate, max_units)
    assert set(drawn) <= set(range(num_units + 1))
    distance = sum(abs(drawn.get(k, 0) - p) for k, p in enumerate(law)) / 2
    assert distance <= Fraction(num_units + 1, 1 << 127)


@pytest.mark.parametrize("numerator", [1 << 55, 1 << 61, 1 << 63, (1 << 64) - (1 << 60)])
def test_the_bound_of_the_largest_set_holds_for_smaller_ones(numerator: int) -> None:
    """What is left out beyond the window is below 2^-190 for every size."""
    rate, max_units = SamplingRate(numerator), 700
    for num_units in (0, 1, 2, 3, 50, 51, 52, 300, 301, 512, 698, 699, 700):
        table = count_table(num_units, rate, max_units)
        low, high = table.lowest, table.lowest + _window(rate, max_units)
        law = probabilities(num_units, rate.exact)
        left_out = sum((p for k, p in enumerate(law) if not low <= k <= high), Fraction(0))
        assert left_out < Fraction(1, 1 << 190)


def _window(rate: SamplingRate, max_units: int) -> int:
    """Return how far the last count of a table is from its first."""
    return sum(binomial._reach(max_units, rate.numerator))


@pytest.mark.parametrize("rate", [1e-9, 1 / 1200, 0.02, 0.5, 0.999])
def test_the_work_for_a_table_follows_the_declared_bound(
    monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    """As many entries, and as many multiplications of integers as long, for any true size."""
    calls: list[str] = []

    def counted(name: str) -> None:
        real = getattr(binomial, name)

        def count(*arguments: int) -> object:
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(binomial, name, count)

    max_units, seen = 100_000, set()
    for name in ("_below", "_above", "_rounded_down"):
        counted(name)
    binomial._reach(max_units, SamplingRate.at_least(rate).numerator)
    for num_units in (0, 1, 77, 10_000, 60_000, max_units):
        calls.clear()
        count_table.cache_clear()
        table = count_table(num_units, SamplingRate.at_least(rate), max_units)
        work = tuple(calls.count(name) for name in ("_below", "_above", "_rounded_down"))
        seen.add((len(table.entries), *work))
    assert len(seen) == 1
    count_table.cache_clear()


@pytest.mark.parametrize(("num_units", "mean"), [(2_000, 1.5), (2_000, 700.0), (30_000, 50.0)])
def test_larger_tables_against_logarithms(num_units: int, mean: float) -> None:
    """The same law by another route, in float64, to its eleven digits."""
    rate = SamplingRate.at_least(mean / num_units)
    q = float(rate)
    law = law_of_table(num_units, rate)
    assert sum(law.values()) == 1
    for count, probability in law.items():
        log = math.lgamma(num_units + 1) - math.lgamma(count + 1)
        log += count * math.log(q) + (num_units - count) * math.log1p(-q)
        log -= math.lgamma(num_units - count + 1)
        if log > -60:
            assert math.log(probability) == pytest.approx(log, abs=1e-7)


@pytest.mark.parametrize(("num_units", "numerator"), SMALL)
def test_words_are_inverted_by_definition_at_every_boundary(num_units: int, numerator: int) -> None:
    table = count_table(num_units, SamplingRate(numerator), 47)
    edges = {entry + step for entry in table.entries for step in (-1, 0, 1)}
    for word in sorted(edges | {0, (1 << 128) - 1}):
        if 0 <= word < 1 << 128:
            defined = table.lowest + sum(word < entry for entry in table.entries)
            assert table.invert(word) == defined
            words = Words(word >> 64, word & (2**64 - 1))
            drawn = draw_count(num_units, SamplingRate(numerator), words, 47)
            assert drawn == defined


def test_the_number_of_comparisons_is_public() -> None:
    class Counted(int):
        compared = 0

        def __lt__(self, other: int) -> bool:
            Counted.compared += 1
            return int(self) < other

    table = count_table(60_000, SamplingRate.at_least(1 / 1200), 100_000)
    assert (len(table.entries) + 1).bit_count() == 1
    seen = set()
    for shift in range(129):
        Counted.compared = 0
        table.invert(Counted((1 << shift) - 1))
        seen.add(Counted.compared)
    assert seen == {(len(table.entries)).bit_length()}


def test_tables_stay_short() -> None:
    """Within twenty standard deviations and a little: sampling.md counts on it."""
    for num_units, mean in ((1 << 23, 1 << 22), (1 << 30, 1 << 18), (60_000, 50), (10**7, 1)):
        rate = SamplingRate.at_least(Fraction(mean, num_units))
        entries = sum(entry > 0 for entry in count_table(num_units, rate, num_units).entries)
        assert entries < 40 * math.sqrt(mean * (1 - mean / num_units)) + 200


@pytest.mark.statistical
def test_counts_have_the_binomial_law() -> None:
    """Chi-square of 40,000 counts in 8 classes; false alarm 1e-6 (critical value 40.6 at 7)."""
    rate, noise, draws = SamplingRate.at_least(0.3), SeededNoise(11), 40_000
    law = probabilities(7, rate.exact)
    seen = np.bincount([draw_count(7, rate, noise, 12) for _ in range(draws)], minlength=8)
    expected = np.array([float(p) for p in law]) * draws
    assert expected.min() > 5
    assert float(((seen - expected) ** 2 / expected).sum()) < 40.6


def test_two_words_whatever_the_rate_and_the_number_of_units() -> None:
    for num_units, rate in ((0, 0.1), (9, 0.5), (60_000, 1e-3), (10**6, 0.5), (10**12, 1)):
        words = Words(1 << 63, 0)
        count = draw_count(num_units, SamplingRate.at_least(rate), words, num_units)
        assert words.asked == [2]
        assert abs(count - num_units * rate) <= 1


def test_rates_at_the_ends() -> None:
    assert draw_count(10**12, SamplingRate(1 << 64), NoNoise(), 10**12) == 10**12
    assert draw_count(0, SamplingRate(5), NoNoise(), 9) == 0
    assert draw_count(3, SamplingRate((1 << 64) - 1), Words(1 << 63, 0), 3) == 3
    assert draw_count(10**9, SamplingRate(1), Words(1 << 63, 0), 10**9) == 0
