"""Noise sources that only tests have: none at all, and a seeded one through the real sampler."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from curator.sanitizer.gaussian import discrete_gaussian


class NoNoise:
    """Adds nothing and samples with all-zero words (every record is included)."""

    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.zeros(num_words, dtype=torch.int64)


class SeededNoise:
    """The production sampler on a reproducible stream."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.from_numpy(discrete_gaussian(num_values, self.words, self.words))

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.from_numpy(self.words(num_words).view(np.int64).copy())
