"""DP-Sinkhorn in one run: orthogonal images, each rarely sampled, one grey image that is moved.

The gradient of one grey image points away from the mean of the sampled records, and all of it is
clipped to C: records of a batch share one vector. So a canary that is sampled alone moves the
answer by C, of the 2 C that are charged, and of several each moves it by less. A low rate keeps
them apart. Over many steps each canary is scored by the odds that it was sampled at this step or
not at all.

Shape legend: M canaries, D pixels, T steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from scipy.linalg import hadamard
from scipy.stats import poisson

from analyst.client import Barrier, Run
from audit.one_run_attack import Coins, Vector, black_and_white, canary_facts
from curator.data.images import LabelledImages
from curator.privacy.facts import DatasetFacts

_CLIP_NORM: Final = 1e-2
_CAPACITY: Final = 32
_SENSITIVITY: Final = 2.0  # in clip norms
_MEDIAN_OF_NORMAL: Final = 0.6745
_LEAST_NOISE: Final = 1e-3  # in clip norms
_RARE: Final = 1e-2  # batches so large are left out of the odds
_LARGEST_LOGARITHM: Final = 600.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TransportAttack:
    """See `OneRunAttack`; as many canaries as pixels, so a power of two that is a square."""

    side: int = 32
    num_steps: int = 5000
    expected_batch: float = 2.0  # of all canaries; half of them are in
    mechanism: str = "dp-sinkhorn"

    @property
    def num_canaries(self) -> int:
        """See `OneRunAttack`."""
        return self.side**2

    @property
    def shared(self) -> str:
        """See `OneRunAttack`."""
        return (
            "canaries of a batch share one gradient of the clip norm C, and 2 C are charged for "
            "each"
        )

    @property
    def _rate(self) -> float:
        return min(1.0, self.expected_batch / self.num_canaries)

    def facts(self, name: str) -> DatasetFacts:
        """See `OneRunAttack`."""
        sizes = {
            "nominal_size": self.num_canaries,
            "max_size": self.num_canaries,
            "sampling_rate": self._rate,
            "capacity": _CAPACITY,
        }
        return canary_facts(name, self.side, 1, sizes)

    def parameters(self, noise_multiplier: float) -> Mapping[str, object]:
        """See `OneRunAttack`."""
        return {
            "noise_multiplier": noise_multiplier,
            "sampling_rate": self._rate,
            "capacity": _CAPACITY,
            "num_samples": 1,
            "num_debias": 0,
            "clip_norm": _CLIP_NORM,
            "reg": 1.0,
            "l1_weight": 0.0,
            "label_scale": 0.0,
            "schedule": "published",
        }

    def canaries(self) -> LabelledImages:
        """See `OneRunAttack`."""
        return black_and_white(hadamard(self.num_canaries) > 0, self.side, 1)

    def observe(self, barrier: Barrier, run: Run) -> Vector:
        """See `OneRunAttack`: a gradient a step, for one grey image."""
        del barrier
        image = torch.zeros((1, 1, self.side, self.side), dtype=torch.float64)
        label = torch.zeros(1, dtype=torch.int64)
        steps = [run.gradient(image, label).numpy().ravel() for _ in range(self.num_steps)]
        return np.stack(steps)

    def scores(self, observed: Vector, noise_multiplier: float) -> Vector:
        """See `OneRunAttack`."""
        directions_DM = -hadamard(self.num_canaries).T / self.side
        return self._log_odds(observed @ directions_DM / _CLIP_NORM, noise_multiplier)

    def _log_odds(self, seen_TM: Vector, noise_multiplier: float) -> Vector:
        """Return the log odds of all steps, batches being as large as they are by chance.

        Noise is measured where hardly anything else is: were there less of it than is claimed,
        whoever believes the claim would overlook what could be seen.

        Args:
            seen_TM: What every step says along each canary, in clip norms.
            noise_multiplier: The one that is claimed.
        """
        measured = float(np.median(np.abs(seen_TM))) / _MEDIAN_OF_NORMAL
        noise_std = min(_SENSITIVITY * noise_multiplier, max(measured, _LEAST_NOISE))
        others, sizes = self.expected_batch / 2, np.arange(_CAPACITY)
        odds_TM = np.zeros_like(seen_TM)
        for size, weight in zip(sizes, poisson.pmf(sizes, others), strict=True):
            if weight > _RARE:
                shift = 1 / (noise_std * np.sqrt(1 + size))
                exponent_TM = seen_TM * (shift / noise_std) - shift**2 / 2
                odds_TM += weight * np.exp(np.minimum(exponent_TM, _LARGEST_LOGARITHM))
        return np.asarray(np.log1p(self._rate * (odds_TM - 1)).sum(axis=0))

    def simulated(
        self, coins: Coins, noise_multiplier: float, claimed: float, rng: np.random.Generator
    ) -> Vector:
        """See `OneRunAttack`: each batch's canaries in one vector of the clip norm."""
        sampled_TM = (rng.random((self.num_steps, len(coins))) < self._rate) & coins
        lengths_T1 = np.sqrt(np.maximum(sampled_TM.sum(axis=1, keepdims=True), 1))
        noise_TM = rng.standard_normal(sampled_TM.shape) * (_SENSITIVITY * noise_multiplier)
        return self._log_odds(sampled_TM / lengths_T1 + noise_TM, claimed)
