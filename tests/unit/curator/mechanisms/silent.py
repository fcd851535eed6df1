"""A noise source without noise, so that a test sees what is released; exists only in tests."""

from __future__ import annotations

import torch
from torch import Tensor


class SilentNoise:
    def __init__(self) -> None:
        self.num_draws = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        self.num_draws += num_values
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.zeros(num_words, dtype=torch.int64)
