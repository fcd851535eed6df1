"""What an analyst asks of the curator for GS-WGAN; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class _CriticsConfig:
    """What all three ways ask of critics."""

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
        names = (field.name for field in fields(self) if field.name != "kind")
        return {name: getattr(self, name) for name in names}

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganMeanConfig(_CriticsConfig):
    """GS-WGAN with averaged critics: one critic a shard, all of them asked at every step."""

    wire_name: ClassVar[str] = "gs-wgan-mean"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-mean"]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (2 C sqrt(B) / K), of the average (z)")
    ]
    critic_steps: Annotated[int, Field(ge=1, description="updates of every critic in a step")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganDecoupledConfig(_CriticsConfig):
    """GS-WGAN with decoupled critics: updated in public turns, one of them asked in secret."""

    wire_name: ClassVar[str] = "gs-wgan-decoupled"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-decoupled"]
    critics_per_step: Annotated[
        int, Field(ge=1, description="critics that a step updates, in turn; divides K")
    ]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GsWganRoundRobinConfig(_CriticsConfig):
    """GS-WGAN with critics in a public round: step t updates and asks critic t mod K."""

    wire_name: ClassVar[str] = "gs-wgan-round-robin"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["gs-wgan-round-robin"]
