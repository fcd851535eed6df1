"""Subsets are uniform, ordered, distinct, and cost no more than their capacity."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data.subset import ordered_subset, uniform_below
from tests.fakes.noise import NoNoise, SeededNoise


class Words:
    """Gives the words it was made with, in the portions that are asked for."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)
        self.asked: list[int] = []

    def uniform_words(self, num_words: int) -> Tensor:
        self.asked.append(num_words)
        taken, self.words = self.words[:num_words], self.words[num_words:]
        return torch.from_numpy(np.array(taken, dtype=np.uint64).view(np.int64))

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise AssertionError("sampling draws no noise")


def below(bounds: list[int], noise: Words) -> list[int]:
    indices: list[int] = uniform_below(np.array(bounds, dtype=np.uint64), noise).tolist()
    return indices


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 60_000, (1 << 62) + 1])
def test_the_words_above_the_last_whole_period_are_refused(bound: int) -> None:
    periods = 2**64 // bound * bound  # accepted words: each index as often as every other
    assert below([bound], Words(periods - 1)) == [bound - 1]
    assert below([bound], Words(0)) == [0]
    for word in {periods, 2**64 - 1} - {2**64}:
        noise = Words(word, word, 7)
        if word >= periods:
            assert below([bound], noise) == [7 % bound]
            assert noise.asked == [1, 1, 1]


def test_only_refused_words_are_drawn_again() -> None:
    noise = Words(2**64 - 1, 5, 2**64 - 1, 2**64 - 1, 4, 8)
    assert below([3, 3, 3], noise) == [8 % 3, 2, 4 % 3]
    assert noise.asked == [3, 2, 1]


@pytest.mark.parametrize(("num_units", "capacity"), [(0, 4), (1, 4), (5, 3), (5, 5), (60_000, 9)])
def test_as_many_words_as_the_capacity(num_units: int, capacity: int) -> None:
    noise = Words(*range(capacity))
    chosen = ordered_subset(num_units, capacity, noise).tolist()
    assert noise.asked[:1] == [capacity]
    assert len(set(chosen)) == len(chosen) == min(num_units, capacity)
    assert all(0 <= one < num_units for one in chosen)


def test_zero_words_keep_the_order() -> None:
    assert ordered_subset(9, 4, NoNoise()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_sequence_of_jumps_gives_another_ordered_subset(size: int) -> None:
    """By brute force over all jumps of a set of 4: a bijection, so uniform jumps are enough."""
    jumps = itertools.product(*(range(4 - place) for place in range(size)))
    found = Counter(tuple(ordered_subset(4, size, Words(*jump)).tolist()) for jump in jumps)
    assert set(found) == set(itertools.permutations(range(4), size))
    assert set(found.values()) == {1}


@pytest.mark.statistical
def test_subsets_are_uniform() -> None:
    """Chi-square of 60,000 triples of 5 in 60 classes; false alarm 1e-6 (126 at 59)."""
    noise, draws = SeededNoise(3), 60_000
    found = Counter(tuple(ordered_subset(5, 3, noise).tolist()) for _ in range(draws))
    expected = draws / 60
    assert sum((found[key] - expected) ** 2 / expected for key in found) < 126
    assert len(found) == 60
