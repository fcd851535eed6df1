"""What an analyst asks of the curator for GS-WGAN; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from analyst.generators.sampling import balanced_labels

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganMeanConfig:
    """GS-WGAN with averaged critics: one critic a shard, all of them asked at every step."""

    wire_name: ClassVar[str] = "gs-wgan-mean"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-mean"]
    num_critics: Annotated[int, Field(ge=1, description="shards, each with a critic (K)")]
    shard_capacity: Annotated[int, Field(ge=1, description="most rows of a shard; others are cut")]
    num_samples: Annotated[int, Field(ge=1, description="generated rows of a step (B)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on each image's gradient (C)")]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (2 C sqrt(B) / K), of the average (z)")
    ]
    critic: Annotated[Literal["mlp", "conv"], Field(description="layers of a critic")]
    critic_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    critic_seed: Annotated[int, Field(ge=0, description="public seed of weights and minibatches")]
    critic_batch: Annotated[int, Field(ge=1, description="records of a critic's update")]
    critic_steps: Annotated[int, Field(ge=1, description="updates of every critic in a step")]
    warm_start_steps: Annotated[int, Field(ge=0, description="further updates in the first step")]
    critic_learning_rate: Annotated[float, Field(gt=0, description="of the critics' Adam")]
    gradient_penalty: Annotated[float, Field(ge=0, description="weight of the slope penalty")]

    def parameters(self, facts: object) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent: everything."""
        return {
            "num_critics": self.num_critics,
            "shard_capacity": self.shard_capacity,
            "num_samples": self.num_samples,
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "critic": self.critic,
            "critic_width": self.critic_width,
            "critic_seed": self.critic_seed,
            "critic_batch": self.critic_batch,
            "critic_steps": self.critic_steps,
            "warm_start_steps": self.warm_start_steps,
            "critic_learning_rate": self.critic_learning_rate,
            "gradient_penalty": self.gradient_penalty,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)
