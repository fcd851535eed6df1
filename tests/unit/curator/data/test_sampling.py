"""Sampling is exact, padded, and never raises after it has looked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.privacy.event import SamplingRate
from tests.fakes.noise import NoNoise, SeededNoise


def records(count: int) -> LabelledImages:
    levels = (np.arange(count) + 1).astype(np.uint8).reshape(count, 1, 1, 1)
    return LabelledImages(levels=levels, labels=np.arange(count) % 3)


class Words:
    """Gives the words it was made with."""

    def __init__(self, words: list[int]) -> None:
        self.words = np.array(words, dtype=np.uint64)

    def uniform_words(self, num_words: int) -> Tensor:
        assert num_words == len(self.words)
        return torch.from_numpy(self.words.view(np.int64))

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise AssertionError("sampling draws no noise")


def test_a_record_is_taken_when_its_word_is_below_the_numerator() -> None:
    numerator = (1 << 63) + 5  # above 2^63: an unsigned comparison
    words = [numerator - 1, numerator, 0, 2**64 - 1]
    sealed = PrivateRecords(records(4)).poisson_batch(SamplingRate(numerator), 6, Words(words))
    batch = sealed.unseal()
    assert batch.levels_MD[:, 0].tolist() == [1, 3, 0, 0, 0, 0]
    assert batch.labels_M.tolist() == [0, 2, 0, 0, 0, 0]
    assert batch.mask_M.tolist() == [True, True, False, False, False, False]


def test_rate_one_takes_everything_and_overflow_keeps_the_first_rows() -> None:
    batch = PrivateRecords(records(5)).poisson_batch(SamplingRate(1 << 64), 3, NoNoise()).unseal()
    assert batch.levels_MD[:, 0].tolist() == [1, 2, 3]
    assert bool(batch.mask_M.all())


@pytest.mark.parametrize("count", [0, 1, 7])
def test_shapes_are_public_whatever_is_sampled(count: int) -> None:
    rate = SamplingRate.at_least(1e-9)
    batch = PrivateRecords(records(count)).poisson_batch(rate, 4, SeededNoise(1)).unseal()
    assert batch.levels_MD.shape == (4, 1)
    assert batch.labels_M.shape == batch.mask_M.shape == (4,)
    assert not bool(batch.mask_M.any())


def test_a_record_that_cannot_be_gathered_empties_the_batch() -> None:
    images = records(4)
    private = PrivateRecords(images)
    private._labels = np.array([0, 1, "damaged", 2], dtype=object)
    batch = private.poisson_batch(SamplingRate(1 << 64), 4, NoNoise()).unseal()
    assert not bool(batch.mask_M.any())
    assert int(batch.levels_MD.sum()) == 0


def test_the_rate_is_met() -> None:
    """Count of 200,000 Bernoulli draws; false alarm below 1e-9 (6.1 standard deviations)."""
    rate = SamplingRate.at_least(1 / 7)
    count = 200_000
    images = LabelledImages(
        levels=np.zeros((count, 1, 1, 1), dtype=np.uint8), labels=np.zeros(count, dtype=np.int64)
    )
    batch = PrivateRecords(images).poisson_batch(rate, count, SeededNoise(5)).unseal()
    taken = int(batch.mask_M.sum())
    assert abs(taken - count / 7) < 6.1 * (count * 6 / 49) ** 0.5


def test_every_record_once_in_batches_of_one_shape() -> None:
    batches = [sealed.unseal() for sealed in PrivateRecords(records(10)).batches(4)]
    assert [batch.levels_MD.shape for batch in batches] == [(4, 1)] * 3
    levels = torch.cat([batch.levels_MD[batch.mask_M, 0] for batch in batches])
    assert levels.tolist() == list(range(1, 11))


def test_the_container_prints_nothing() -> None:
    assert repr(PrivateRecords(records(3))) == "PrivateRecords(<sealed>)"
