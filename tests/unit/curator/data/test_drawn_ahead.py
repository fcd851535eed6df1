"""Samples that were drawn ahead are the same samples, handed out once, never to a child."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data import sampling
from curator.data.images import LabelledImages
from curator.data.sampling import DrawnAhead, PrivateRecords
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from tests.fakes.noise import SeededNoise

RATE, OTHER = SamplingRate.at_least(1 / 5), SamplingRate.at_least(1 / 4)


class Counted:
    """A seeded stream that counts its words, or has none left."""

    def __init__(self, seed: int) -> None:
        self._inner = SeededNoise(seed)
        self.asked = 0
        self.is_broken = False

    def uniform_words(self, num_words: int) -> Tensor:
        if self.is_broken:
            raise OSError
        self.asked += num_words
        return self._inner.uniform_words(num_words)

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise AssertionError("sampling draws no noise")


def records() -> PrivateRecords:
    levels = np.arange(1, 41, dtype=np.uint8).reshape(40, 1, 1, 1)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(40) % 3))


def places(value: int) -> sampling.Places:
    return np.full(3, value), np.full(3, value)


def rows(batch: Private[RecordBatch]) -> list[int]:
    return [int(level) for level in batch.unseal().levels_MD[:, 0]]


def test_batches_are_those_that_would_have_been_drawn_later() -> None:
    plain, ahead = records(), records()
    noise, same = SeededNoise(1), SeededNoise(1)
    expected = [rows(plain.poisson_batch(RATE, 12, noise)) for _ in range(6)]
    got = []
    for turn in range(6):
        if turn % 2 == 0:
            ahead.draw_ahead(RATE, 12, same)
        got.append(rows(ahead.poisson_batch(RATE, 12, same)))
    assert got == expected


def test_a_sample_is_used_once() -> None:
    private, noise = records(), Counted(2)
    private.draw_ahead(RATE, 12, noise)
    asked = noise.asked
    first = private.poisson_batch(RATE, 12, noise)
    assert noise.asked == asked
    second = private.poisson_batch(RATE, 12, noise)
    assert noise.asked == 2 * asked
    assert rows(first) != rows(second)


@pytest.mark.parametrize(("rate", "capacity"), [(OTHER, 12), (RATE, 13)])
def test_another_rate_or_capacity_draws_for_itself(rate: SamplingRate, capacity: int) -> None:
    private, noise = records(), Counted(2)
    private.draw_ahead(RATE, 12, noise)
    asked = noise.asked
    assert len(rows(private.poisson_batch(rate, capacity, noise))) == capacity
    assert noise.asked > asked


def test_what_cannot_be_drawn_ahead_is_drawn_by_the_batch() -> None:
    private, noise = records(), Counted(2)
    noise.is_broken = True
    private.draw_ahead(RATE, 12, noise)
    noise.is_broken = False
    assert torch.is_tensor(private.poisson_batch(RATE, 12, noise).unseal().mask_M)
    assert noise.asked > 0


def test_the_oldest_samples_are_forgotten_and_the_others_come_in_order() -> None:
    ahead = DrawnAhead()
    for value in range(20):
        ahead.put(RATE, 3, places(value))
    taken = []
    while (found := ahead.take(RATE, 3)) is not None:
        taken.append(int(found[0][0]))
    assert taken == list(range(4, 20))


def test_a_child_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = DrawnAhead()
    ahead.put(RATE, 3, places(1))
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert ahead.take(RATE, 3) is None
    monkeypatch.undo()
    assert ahead.take(RATE, 3) is not None
