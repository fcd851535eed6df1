"""The mean embedding in one run: images whose feature rows are as good as orthogonal.

At random frequencies, of a bandwidth far below the distance of two images, cosines and sines of two
images have nothing in common but chance; those of two classes are apart anyhow. The release is the
sum of the rows that are in, with noise: nothing is clipped by the others. Whatever is trained on it
afterwards is a function of it, and tells no more.

Shape legend: M canaries, D pixels, R numbers of a row, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch

from analyst.client import Barrier, Run
from audit.one_run_attack import (
    Coins,
    Vector,
    alone,
    black_and_white,
    canary_facts,
    linear_scores,
    measured_noise,
    public_bits,
)
from curator.data.images import LabelledImages
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.mean_embedding import MeanEmbeddingSpec, feature_map
from curator.privacy.facts import DatasetFacts

_SIDE: Final = 8
_NUM_CLASSES: Final = 100
_FEATURES_PER_CANARY: Final = 4
_COIN_VARIANCE: Final = 0.25
_ROUNDS: Final = 50
_ROWS: Final = 256


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingAttack:
    """See `OneRunAttack`."""

    num_canaries: int = 40_000
    mechanism: str = "mean-embedding"
    num_steps: int = 1

    @property
    def shared(self) -> str:
        """See `OneRunAttack`."""
        return "rows of canaries are next to orthogonal and each has its whole norm"

    def facts(self, name: str) -> DatasetFacts:
        """See `OneRunAttack`."""
        sizes = {
            "nominal_size": self.num_canaries,
            "max_size": self.num_canaries,
            "sampling_rate": 1.0,
            "capacity": _ROWS,
        }
        return canary_facts(name, _SIDE, _NUM_CLASSES, sizes)

    def parameters(self, noise_multiplier: float) -> Mapping[str, object]:
        """See `OneRunAttack`."""
        per_class = -(-self.num_canaries // _NUM_CLASSES)
        return {
            "noise_multiplier": noise_multiplier,
            "num_features": max(2, 2 * (_FEATURES_PER_CANARY * per_class // 2)),
            "bandwidths": [1.0],
            "feature_seed": 22,
            "count_scale": 1e-3,
        }

    def canaries(self) -> LabelledImages:
        """See `OneRunAttack`."""
        bits = public_bits("embedding", self.num_canaries * _SIDE**2)
        return black_and_white(bits.reshape(-1, _SIDE**2), _SIDE, _NUM_CLASSES)

    def observe(self, barrier: Barrier, run: Run) -> Vector:
        """See `OneRunAttack`."""
        return np.asarray(barrier.download_release(run.run_id).values.numpy(), dtype=np.float64)

    def scores(self, observed: Vector, noise_multiplier: float) -> Vector:
        """See `OneRunAttack`; class by class."""
        spec = MeanEmbeddingSpec.model_validate(self.parameters(noise_multiplier))
        features = feature_map(spec, self.facts("audit").space)
        counted = CountedFeatures(count_scale=spec.count_scale, noise_multiplier=noise_multiplier)
        images, scores = self.canaries(), np.empty(self.num_canaries)
        sums_KR = observed.reshape(_NUM_CLASSES, -1)
        for number in range(_NUM_CLASSES):
            ours = images.labels == number
            levels_MD = torch.from_numpy(images.levels[ours].reshape(-1, _SIDE**2))
            rows_MR = counted.rows(features.record_rows(levels_MD)).cpu().numpy()
            noise_std = min(noise_multiplier, measured_noise(rows_MR, sums_KR[number]))
            scores[ours] = linear_scores(rows_MR, sums_KR[number], noise_std)
        return scores

    def simulated(
        self, coins: Coins, noise_multiplier: float, claimed: float, rng: np.random.Generator
    ) -> Vector:
        """See `OneRunAttack`: rows of norm 1, in random directions.

        What the best linear estimate leaves of the others is noise to each: of many rows, a share
        of the variance of a coin for every number that a row has, as far as coins stay unknown.

        References:
            [tse:99], theorem 3.1.
        """
        variance = noise = min(noise_multiplier, claimed) ** 2
        for _ in range(_ROUNDS):
            unknown = _COIN_VARIANCE * variance / (_COIN_VARIANCE + variance)
            variance = noise + unknown / _FEATURES_PER_CANARY
        return alone(coins, variance**-0.5, rng)
