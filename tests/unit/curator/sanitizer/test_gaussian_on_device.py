"""The torch inversion and the numpy one agree bit for bit, also on the boundaries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.sanitizer.gaussian import Words, discrete_gaussian, inversion_entries, invert
from curator.sanitizer.gaussian_on_device import discrete_gaussian_on_device, invert_on_device
from tests.fakes.noise import SeededNoise

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def as_tensor(words: Words, device: str) -> Tensor:
    return torch.from_numpy(words.view(np.int64).copy()).to(device)


@pytest.mark.parametrize("device", DEVICES)
def test_random_words(device: str) -> None:
    words = SeededNoise(4).words(400_000)
    ours = invert_on_device(as_tensor(words, device), lambda n: torch.zeros(n, dtype=torch.int64))
    theirs = invert(words, lambda n: np.zeros(n, dtype=np.uint64))
    assert ours.cpu().tolist() == theirs.tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("refinement", [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**127, None])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_every_boundary(device: str, refinement: int | None, more: int) -> None:
    """With `None` the refinement is about each boundary's own low words."""
    entries = inversion_entries()[::7]
    words = np.array([value >> 128 for value in entries], dtype=np.uint64)
    words[::2] |= np.uint64(1 << 63)
    own = [value & (2**128 - 1) if refinement is None else refinement for value in entries]
    moved = [min(max(value + more, 0), 2**128 - 1) for value in own]
    pairs = [word for value in moved for word in (value >> 64, value & (2**64 - 1))]
    given = np.array(pairs, dtype=np.uint64)
    ours = invert_on_device(as_tensor(words, device), lambda n: as_tensor(given[:n], device))
    assert ours.cpu().tolist() == invert(words, lambda n: given[:n]).tolist()


def test_whole_draws() -> None:
    first, second = SeededNoise(9), SeededNoise(9)
    ours = discrete_gaussian_on_device(
        1000, lambda n: as_tensor(first.words(n), "cpu"), lambda n: torch.zeros(n).long()
    )
    theirs = discrete_gaussian(1000, second.words, lambda n: np.zeros(n, dtype=np.uint64))
    assert ours.tolist() == theirs.tolist()
