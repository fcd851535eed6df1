"""DP-CGAN in one run: orthogonal images, and a critic whose first layer shows what it learnt.

The critic has one unit a layer, so the gradient of an image is a multiple of the first layer's
weights. A record's slope on these weights is a multiple of its pixels. So what the weights moved by
is the sum of the pixels of all records that are in, with noise. Noise outweighs the generated rows
and all else, so Adam divides every weight's step by about the same, and its momentum can be undone.

Shape legend: M canaries, D pixels, T steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from scipy.linalg import hadamard

from analyst.client import Barrier, Run
from audit.one_run_attack import (
    Coins,
    Vector,
    alone,
    black_and_white,
    canary_facts,
    linear_scores,
)
from curator.data.images import LabelledImages
from curator.divergences.dp_critic import Examples, example_slopes, initial_vector
from curator.mechanisms.dp_cgan import DpCganSpec, dp_critic_shape
from curator.privacy.facts import DatasetFacts

_NUM_CLASSES: Final = 2
_SEED: Final = 5  # nearly all of every slope lies in the first layer
_MOMENTUM: Final = 0.5  # of the critic's Adam


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CriticAttack:
    """See `OneRunAttack`; as many canaries as pixels, so a power of two that is a square."""

    side: int = 32
    num_steps: int = 20
    mechanism: str = "dp-cgan"

    @property
    def num_canaries(self) -> int:
        """See `OneRunAttack`."""
        return self.side**2

    @property
    def shared(self) -> str:
        """See `OneRunAttack`."""
        return "slopes of canaries are orthogonal, each is clipped alone, and hardly any is hidden"

    def facts(self, name: str) -> DatasetFacts:
        """See `OneRunAttack`."""
        sizes = {
            "nominal_size": self.num_canaries,
            "max_size": self.num_canaries,
            "sampling_rate": 1.0,
            "capacity": self.num_canaries + 1,
        }
        return canary_facts(name, self.side, _NUM_CLASSES, sizes)

    def parameters(self, noise_multiplier: float) -> Mapping[str, object]:
        """See `OneRunAttack`."""
        return {
            "noise_multiplier": noise_multiplier,
            "sampling_rate": 1.0,
            "capacity": self.num_canaries + 1,
            "max_size": self.num_canaries,
            "max_records_per_unit": 1,
            "expected_batch_size": 1e-3,
            "num_samples": 1,
            "num_fakes": 1,
            "clip_norm": 1e-2,
            "critic": "mlp",
            "critic_width": 1,
            "critic_seed": _SEED,
            "critic_steps": 1,
            "critic_learning_rate": 1e-5,
        }

    def canaries(self) -> LabelledImages:
        """See `OneRunAttack`; all of one class."""
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
        spec = DpCganSpec.model_validate(self.parameters(noise_multiplier))
        shape = dp_critic_shape(spec, self.facts("audit").space)
        start = initial_vector(shape, spec.critic_seed)
        weights_D = start[: self.num_canaries].numpy().astype(np.float64)
        along_D = weights_D / np.linalg.norm(weights_D)
        # a gradient is a multiple of the weights of its step: give each the length it has along
        # those of the beginning
        seen_TD = observed / (observed @ along_D)[:, np.newaxis] * np.linalg.norm(weights_D)
        moved_TD = np.diff(np.concatenate((weights_D[np.newaxis], seen_TD)), axis=0)
        warm_T1 = 1 - _MOMENTUM ** np.arange(1, self.num_steps + 1)[:, np.newaxis]
        means_TD = moved_TD * warm_T1
        means_TD[1:] -= _MOMENTUM * means_TD[:-1].copy()
        sums_D = means_TD.sum(axis=0)  # the step goes against the slope
        signatures_MD = self._signatures(spec, start)
        apart_D = np.eye(self.num_canaries) - np.outer(along_D, along_D)
        noise_std = noise_multiplier / math.sqrt(self.num_steps)
        # one number scales all: noise has most of the length
        expected = noise_std**2 + np.square(signatures_MD).sum() / 2 / self.num_canaries
        scaled_D = -sums_D * math.sqrt(expected * self.num_canaries / np.square(sums_D).sum())
        return linear_scores(signatures_MD @ apart_D, scaled_D @ apart_D, noise_std)

    def _signatures(self, spec: DpCganSpec, start: torch.Tensor) -> Vector:
        """Return the slopes of all canaries on the first layer, of clip norm 1."""
        shape = dp_critic_shape(spec, self.facts("audit").space)
        pixels_MD = torch.from_numpy(hadamard(self.num_canaries).astype(np.float32))
        onehot_ML = torch.zeros((self.num_canaries, _NUM_CLASSES))
        onehot_ML[:, 0] = 1
        records = Examples(images_ND=pixels_MD, onehot_NL=onehot_ML, are_records=True)
        parts = example_slopes(shape, start, records)
        norms_M1 = torch.cat(parts, dim=1).norm(dim=1, keepdim=True)
        return np.asarray((parts[0] / norms_M1).numpy(), dtype=np.float64)

    def simulated(
        self, coins: Coins, noise_multiplier: float, claimed: float, rng: np.random.Generator
    ) -> Vector:
        """See `OneRunAttack`: every slope of its clip norm, and every noised sum seen."""
        del claimed
        return alone(coins, math.sqrt(self.num_steps) / noise_multiplier, rng)
