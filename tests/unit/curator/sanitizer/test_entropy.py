"""Keystream is fresh each time, in each process, and from separate streams."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest
import torch

from curator.sanitizer import entropy
from curator.sanitizer.entropy import OsEntropy


def test_two_sources_and_two_calls_never_agree() -> None:
    source, other = OsEntropy(), OsEntropy()
    draws = [s.uniform_words(4).tolist() for s in (source, source, other)]
    flat = [word for draw in draws for word in draw]
    assert len(set(flat)) == len(flat)


def test_a_forked_child_has_another_keystream() -> None:
    source = OsEntropy()
    source.uniform_words(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, np.asarray(source.uniform_words(4)).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 32)
    assert theirs != np.asarray(source.uniform_words(4)).tobytes()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of what the operating system was asked for; a key has 32 bytes."""
    sizes: list[int] = []
    real = os.urandom

    def watched(size: int) -> bytes:
        sizes.append(size)
        return real(size)

    monkeypatch.setattr(os, "urandom", watched)
    return sizes


def test_keys_are_replaced(monkeypatch: pytest.MonkeyPatch, asked: list[int]) -> None:
    monkeypatch.setattr(entropy, "_REKEY_BYTES", 64)
    source = OsEntropy()
    for _ in range(4):
        source.uniform_words(4)
    assert asked.count(32) == 2


def test_a_key_is_gone_a_mebibyte_later(asked: list[int]) -> None:
    source = OsEntropy()
    source.uniform_words(1 << 16)
    source.uniform_words(1 << 16)
    assert asked.count(32) == 1
    source.uniform_words(1)
    assert asked.count(32) == 2


def test_nothing_can_be_seeded() -> None:
    assert list(inspect.signature(OsEntropy).parameters) == ["device"]
    assert "seed" not in inspect.getsource(entropy).replace("way to seed them", "")


def test_draws_have_the_lattice_scale() -> None:
    """Standard deviation of 200,000 draws; false alarm below 1e-9 (6.1 standard errors)."""
    draws = OsEntropy().discrete_gaussian(200_000).double()
    assert abs(draws.std() / 65537.998 - 1) < 6.1 / (2 * 200_000) ** 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
def test_draws_on_a_card_have_the_lattice_scale() -> None:
    """Standard deviation of 200,000 draws; false alarm below 1e-9 (6.1 standard errors)."""
    draws = OsEntropy(torch.device("cuda")).discrete_gaussian(200_000)
    assert draws.device == torch.device("cpu")
    assert abs(draws.double().std() / 65537.998 - 1) < 6.1 / (2 * 200_000) ** 0.5


def test_words_become_the_same_draws_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = np.random.default_rng(1).integers(0, 2**64, 4000, dtype=np.uint64)
    monkeypatch.setattr(OsEntropy, "_take", lambda *given: taken[: given[2]])
    here, there = OsEntropy(), OsEntropy()
    there._device = torch.device("meta")  # not the processor
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_: tensor)
    assert here.discrete_gaussian(2000).equal(there.discrete_gaussian(2000))
