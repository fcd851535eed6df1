"""What an analyst asks of the curator for GS-WGAN; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
        return _shared(self)

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganDecoupledConfig:
    """GS-WGAN with decoupled critics: updated in public turns, one of them asked in secret."""

    wire_name: ClassVar[str] = "gs-wgan-decoupled"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-decoupled"]
    num_critics: Annotated[int, Field(ge=1, description="shards, each with a critic (K)")]
    shard_capacity: Annotated[int, Field(ge=1, description="most rows of a shard; others are cut")]
    num_samples: Annotated[int, Field(ge=1, description="generated rows of a step (B)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on each image's gradient (C)")]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (2 C sqrt(B)), of one critic (z)")
    ]
    critic: Annotated[Literal["mlp", "conv"], Field(description="layers of a critic")]
    critic_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    critic_seed: Annotated[int, Field(ge=0, description="public seed of weights and minibatches")]
    critic_batch: Annotated[int, Field(ge=1, description="records of a critic's update")]
    critic_steps: Annotated[int, Field(ge=1, description="updates of a critic in its turn")]
    warm_start_steps: Annotated[int, Field(ge=0, description="further updates in the first step")]
    critic_learning_rate: Annotated[float, Field(gt=0, description="of the critics' Adam")]
    gradient_penalty: Annotated[float, Field(ge=0, description="weight of the slope penalty")]
    critics_per_step: Annotated[
        int, Field(ge=1, description="critics that a step updates, in turn; divides K")
    ]

    def parameters(self, facts: object) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent: everything."""
        return {**_shared(self), "critics_per_step": self.critics_per_step}

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganRoundRobinConfig:
    """GS-WGAN with critics in a public round: step t updates and asks critic t mod K."""

    wire_name: ClassVar[str] = "gs-wgan-round-robin"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-round-robin"]
    num_critics: Annotated[int, Field(ge=1, description="shards, each with a critic (K)")]
    shard_capacity: Annotated[int, Field(ge=1, description="most rows of a shard; others are cut")]
    num_samples: Annotated[int, Field(ge=1, description="generated rows of a step (B)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on each image's gradient (C)")]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (2 C sqrt(B)), of one critic (z)")
    ]
    critic: Annotated[Literal["mlp", "conv"], Field(description="layers of a critic")]
    critic_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    critic_seed: Annotated[int, Field(ge=0, description="public seed of weights and minibatches")]
    critic_batch: Annotated[int, Field(ge=1, description="records of a critic's update")]
    critic_steps: Annotated[int, Field(ge=1, description="updates of a critic in its turn")]
    warm_start_steps: Annotated[int, Field(ge=0, description="further updates in the first step")]
    critic_learning_rate: Annotated[float, Field(gt=0, description="of the critics' Adam")]
    gradient_penalty: Annotated[float, Field(ge=0, description="weight of the slope penalty")]

    def parameters(self, facts: object) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent: everything."""
        return _shared(self)

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


def _shared(
    config: GsWganMeanConfig | GsWganDecoupledConfig | GsWganRoundRobinConfig,
) -> dict[str, Any]:
    """Return the parameters that all of these have."""
    return {
        "num_critics": config.num_critics,
        "shard_capacity": config.shard_capacity,
        "num_samples": config.num_samples,
        "clip_norm": config.clip_norm,
        "noise_multiplier": config.noise_multiplier,
        "critic": config.critic,
        "critic_width": config.critic_width,
        "critic_seed": config.critic_seed,
        "critic_batch": config.critic_batch,
        "critic_steps": config.critic_steps,
        "warm_start_steps": config.warm_start_steps,
        "critic_learning_rate": config.critic_learning_rate,
        "gradient_penalty": config.gradient_penalty,
    }
