"""Noise that was drawn ahead is handed out once, in order, and never to a child."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD
from curator.sanitizer.prefetched import PrefetchedNoise


class Counting:
    """Draws 0, 1, 2, ... so that a value that is used twice, or lost, is seen."""

    def __init__(self) -> None:
        self.next = 0
        self.lock = threading.Lock()

    def discrete_gaussian(self, num_values: int) -> Tensor:
        with self.lock:
            start, self.next = self.next, self.next + num_values
        return torch.arange(start, start + num_values)

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.full((num_words,), 7)


@pytest.fixture
def noise() -> Iterator[PrefetchedNoise]:
    noise = PrefetchedNoise(Counting(), 1 << 17)
    yield noise
    noise.stop()


def wait_until_ready(noise: PrefetchedNoise) -> None:
    until = time.monotonic() + 10
    while noise._ready < noise._most and time.monotonic() < until:
        time.sleep(0.001)
    assert noise._ready >= noise._most


def test_values_come_once_and_in_order(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    first = noise.discrete_gaussian(5)
    second = noise.discrete_gaussian(50_000)
    assert first.tolist() == [0, 1, 2, 3, 4]
    assert second.equal(torch.arange(5, 50_005))


def test_no_value_is_handed_out_twice_to_racing_threads(noise: PrefetchedNoise) -> None:
    sizes = [1, 100, 33_000, 7, 200_000, 3, 40_000] * 6
    with ThreadPoolExecutor(8) as pool:
        drawn = torch.cat(list(pool.map(noise.discrete_gaussian, sizes)))
    assert len(drawn) == sum(sizes)
    assert len(set(drawn.tolist())) == len(drawn)


def test_a_caller_may_write_into_what_it_got(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    noise.discrete_gaussian(10).fill_(-1)
    assert int(noise.discrete_gaussian(100).min()) == 10


def test_chunks_become_as_long_as_requests(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    start = 0
    for _ in range(9):
        assert noise.discrete_gaussian(20_000).equal(torch.arange(start, start + 20_000))
        start += 20_000
        noise.draw_ahead()
        wait_until_ready(noise)
    assert len(noise._chunks[0]) == 20_000  # the next request is handed over without a copy


def test_noise_is_drawn_when_it_is_told_or_runs_out(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    noise.discrete_gaussian(40_000)
    time.sleep(0.05)
    assert noise._ready == (1 << 17) - 40_000  # not beside the step that took it
    noise.draw_ahead()
    wait_until_ready(noise)
    noise.discrete_gaussian(100_000)  # the next one would have to wait
    wait_until_ready(noise)


def test_being_told_often_keeps_no_more(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    full = noise._ready
    for _ in range(200):
        noise.draw_ahead()
        time.sleep(1e-4)
    time.sleep(0.05)
    assert noise._ready == full
    assert sum(map(len, noise._chunks)) == full


def test_nothing_at_all(noise: PrefetchedNoise) -> None:
    assert noise.discrete_gaussian(0).shape == (0,)


def test_a_child_never_gets_what_its_parent_may_use(noise: PrefetchedNoise) -> None:
    wait_until_ready(noise)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        first = int(noise.discrete_gaussian(1)[0])
        os.write(writer, str(first).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reader, 100)) >= 1 << 17  # drawn anew, not one that is ready here
    os.close(reader)
    os.close(writer)


def test_after_stopping_noise_is_drawn_when_it_is_asked_for() -> None:
    noise = PrefetchedNoise(Counting(), 1 << 17)
    wait_until_ready(noise)
    noise.stop()
    assert int(noise.discrete_gaussian(1)[0]) >= 1 << 17
    assert not noise._thread.is_alive()


def test_words_come_from_the_source(noise: PrefetchedNoise) -> None:
    assert noise.uniform_words(2).tolist() == [7, 7]


def test_the_law_is_the_source_s() -> None:
    """1e5 draws: a deviation of 6 standard errors has probability 2e-9 on each side."""
    noise = PrefetchedNoise(OsEntropy(), 1 << 16)
    drawn = torch.cat([noise.discrete_gaussian(1000) for _ in range(100)]).double()
    noise.stop()
    assert abs(float(drawn.mean())) < 6 * LATTICE_STD / 100_000**0.5
    assert abs(float(drawn.std()) / LATTICE_STD - 1) < 6 / (2 * 100_000) ** 0.5


def test_a_source_that_fails_is_met_by_who_asks() -> None:
    class Broken:
        def discrete_gaussian(self, num_values: int) -> Tensor:
            raise OSError

        def uniform_words(self, num_words: int) -> Tensor:
            raise OSError

    noise = PrefetchedNoise(Broken(), 1 << 17)
    with pytest.raises(OSError):  # noqa: PT011 - it has no text
        noise.discrete_gaussian(1)
    noise.stop()
