from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy.stats import binom, chi2
from torch import Tensor

from curator.accounting.hypergeometric import log_1f1
from curator.sanitizer.directions import (
    DIRECTION_STD,
    MAX_SLACK_DIMENSION,
    direction_slack,
    draw_directions,
    largest_entry,
)
from curator.sanitizer.entropy import OsEntropy


class CountedWords:
    """The production source; counts what is taken."""

    def __init__(self) -> None:
        self._source = OsEntropy()
        self.taken = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise NotImplementedError

    def uniform_words(self, num_words: int) -> Tensor:
        self.taken += num_words
        return self._source.uniform_words(num_words)


class FixedWords:
    """The same word for ever."""

    def __init__(self, word: int) -> None:
        self._word = word

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise NotImplementedError

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.full((num_words,), self._word, dtype=torch.int64)


def test_columns_are_integers_of_length_one_once_divided() -> None:
    drawn = draw_directions(30, 50, OsEntropy())
    assert drawn.integers_DK.shape == (30, 50)
    assert drawn.integers_DK.equal(drawn.integers_DK.trunc())
    torch.testing.assert_close(drawn.unit_columns.norm(dim=0), torch.ones(50, dtype=torch.float64))


def test_words_are_three_for_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.sanitizer.directions._CHUNK", 64)  # several chunks
    source = CountedWords()
    drawn = draw_directions(10, 30, source)
    assert 900 <= source.taken <= 904  # two more for a word that does not decide, chance 2^-50
    assert len(set(drawn.integers_DK.reshape(-1).tolist())) > 290  # no chunk repeats another


def test_two_calls_never_agree() -> None:
    source = OsEntropy()
    first, second = (draw_directions(5, 5, source).integers_DK for _ in range(2))
    assert not bool((first == second).any())


def test_a_column_that_is_too_short_projects_nothing() -> None:
    drawn = draw_directions(4, 3, FixedWords(0))  # every draw is zero
    assert float(drawn.integers_DK.abs().max()) == 0
    assert float(drawn.inverse_lengths_K.abs().max()) == 0
    assert drawn.unit_columns.isfinite().all()


def test_no_entry_is_above_the_bound() -> None:
    drawn = draw_directions(1, 1, FixedWords(2**63 - 1))  # as far in the table as one word leads
    assert 0.5 * largest_entry() < float(drawn.integers_DK[0, 0]) <= largest_entry()
    assert largest_entry() < 2**28


def test_entries_have_the_variance_of_their_law() -> None:
    """Of 3e5 entries; the sample variance spreads by sqrt(2 / 3e5): 6 of those, chance 2e-9."""
    entries = draw_directions(300, 1000, OsEntropy()).integers_DK
    ratio = float(entries.square().mean()) / DIRECTION_STD**2
    assert abs(ratio - 1) < 6 * math.sqrt(2 / entries.numel())
    assert abs(float(entries.mean())) < 6 * DIRECTION_STD / math.sqrt(entries.numel())


@pytest.mark.parametrize("dimension", [3, 40])
def test_projections_have_the_moments_that_are_charged(dimension: int) -> None:
    """The mean over 2e5 columns of exp(t (w u)^2) is 1F1: within 6 deviations, chance 2e-9.

    Columns below half the expected length are left out: binomially many, within a chance of 1e-9.
    """
    units = draw_directions(dimension, 200_000, OsEntropy()).unit_columns
    kept = units[:, units.norm(dim=0) > 0.5]
    too_short = chi2.cdf(dimension / 4, dimension)
    fewest, most = binom.interval(1 - 1e-9, 200_000, too_short)
    assert fewest <= 200_000 - kept.shape[1] <= most
    row = torch.arange(1, dimension + 1, dtype=torch.float64)
    squares = (row @ kept).square() / row.square().sum()
    for t in (0.3, 3.0):
        mean = float((t * squares).exp().mean())
        wanted, twice = (math.exp(log_1f1(dimension / 2, scale * t)) for scale in (1, 2))
        deviation = math.sqrt((twice - wanted**2) / kept.shape[1])
        assert abs(mean - wanted) < 6 * deviation


def test_the_numbers_of_the_proof() -> None:
    """Deviation of an entry beyond 40, and the smoothing error, both at tau = 5 / 2."""
    tau = mpmath.mpf(5) / 2
    tail = mpmath.nsum(lambda j: mpmath.exp(-((40 + j) ** 2) / (2 * tau**2)), [0, mpmath.inf])
    smoothing = 2 * mpmath.exp(-2 * mpmath.pi**2 * tau**2)
    assert 2 * tail / (tau * mpmath.sqrt(2 * mpmath.pi) * (1 - smoothing)) < mpmath.mpf(2) ** -186
    assert 2 * smoothing < mpmath.mpf(2) ** -175
    exact = 2 * 40 * math.sqrt(1) / (0.5 * DIRECTION_STD)
    assert direction_slack(1) > 1.01 * exact * (1 + 2.0**-8)


@pytest.mark.parametrize("dimension", [1, 6, 794, 12_298, MAX_SLACK_DIMENSION])
def test_the_slack_is_enough_for_the_distance(dimension: int) -> None:
    """Lemma 2 asks (1 + 1/c) delta^2 <= c / d and sqrt(1 + 2 c) <= 1 + c."""
    distance = 2 * 26 / (0.5 * DIRECTION_STD) * (1 + 2.0**-8)
    slack = direction_slack(dimension)
    assert (1 + 1 / slack) * distance**2 <= slack / dimension
    assert 2 * slack < 0.04
    assert math.sqrt(1 + 2 * slack) < 1 + slack


@pytest.mark.parametrize("dimension", [0, -1, MAX_SLACK_DIMENSION + 1])
def test_other_dimensions_are_refused(dimension: int) -> None:
    with pytest.raises(ValueError, match="dimension"):
        direction_slack(dimension)


def test_the_same_words_give_the_same_directions() -> None:
    word = int(np.int64(0x3F00_1234_5678_9ABC))
    first, second = (draw_directions(3, 2, FixedWords(word)).integers_DK for _ in range(2))
    assert first.equal(second)
