"""Rows of features with a constant below them, so that one noised sum holds counts too.

Shape legend: M records, R features, K classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

_MIN_COUNT_IN_STDS: Final = 2.0
_MARGIN: Final = 1 - 2.0**-40  # keeps rounding inside the ball of radius 1


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CountedFeatures:
    """How features and counts share a row of norm 1, and are told apart in noised sums."""

    count_scale: float  # c, the constant stacked below features of norm 1
    noise_multiplier: float  # of the sums, over sensitivity 1

    @property
    def shrink(self) -> float:
        """Bring a row of features and c to norm 1."""
        return 1 / math.sqrt(1 + self.count_scale**2)

    @property
    def count_value(self) -> float:
        """What a record adds to its class's count."""
        return self.count_scale * self.shrink * _MARGIN

    def rows(self, features_MR: Tensor) -> Tensor:
        """Return [phi, c] / sqrt(1 + c^2) for each record.

        Returns:
            Rows (M, R + 1).

        Privacy:
            Row i depends on row i only, bit for bit, and has norm at most 1.
        """
        rows = features_MR.new_full((len(features_MR), features_MR.shape[1] + 1), self.count_value)
        torch.mul(features_MR, self.shrink, out=rows[:, :-1])
        return rows

    def class_means(self, sums_KR: Tensor) -> Tensor:
        """Return noisy mean embeddings, the noisy counts floored at a public minimum.

        Returns:
            Means (K, R).

        Privacy:
            Reads released values only.
        """
        return sums_KR[:, :-1] / (self.shrink * self.counts(sums_KR).unsqueeze(1))

    def counts(self, sums_KR: Tensor) -> Tensor:
        """Return the noisy counts [K] that `class_means` divides by.

        Privacy:
            Reads released values only.
        """
        noise_std = self.noise_multiplier / self.count_value
        floor = max(1.0, _MIN_COUNT_IN_STDS * noise_std)
        return (sums_KR[:, -1] / self.count_value).clamp_min(floor)
