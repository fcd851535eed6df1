"""What an analyst asks of the curator for DP-CGAN; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels
from analyst.recipes.size_facts import SizeFacts, rate_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpCganConfig:
    """DP-CGAN: the curator trains one critic by DP-SGD, and what it says of images is free."""

    wire_name: ClassVar[str] = "dp-cgan"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["dp-cgan"]
    expected_batch_size: Annotated[
        float,
        Field(gt=0, description="records of an update; over the nominal size, the rate"),
    ]
    capacity: Annotated[
        int | None, Field(ge=1, description="rows of the padded private batch [the data set's]")
    ] = None
    num_samples: Annotated[int, Field(ge=1, description="generated rows of a step (N)")]
    num_fakes: Annotated[int, Field(ge=1, description="of them, rows of an update, in turn (R)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on each example's gradient (C)")]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (C times records per unit), of a sum (z)")
    ]
    max_size: Annotated[
        int, Field(ge=1, description="most units, at least what the data set declares")
    ]
    max_records_per_unit: Annotated[
        int, Field(ge=1, description="most records of one unit, likewise; 1 without groups")
    ]
    critic: Annotated[Literal["mlp", "conv"], Field(description="layers of the critic")]
    critic_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    critic_seed: Annotated[int, Field(ge=0, description="public seed of the first weights")]
    critic_steps: Annotated[int, Field(ge=1, description="paid updates before each gradient")]
    critic_learning_rate: Annotated[float, Field(gt=0, description="of the critic's Adam")]
    adaptive_threshold: Annotated[
        float | None,
        Field(ge=0, le=1, description="share of fakes below which gradients get rarer [never]"),
    ] = None
    adaptive_decay: Annotated[
        float | None, Field(ge=0, lt=1, description="weight of the past in that share's average")
    ] = None
    adaptive_grace: Annotated[
        int | None, Field(ge=1, description="gradients between two changes of their pace")
    ] = None

    @model_validator(mode="after")
    def _check(self) -> DpCganConfig:
        if self.num_fakes > self.num_samples:
            msg = "num_fakes must not exceed num_samples"
            raise ValueError(msg)
        stated = (self.adaptive_threshold, self.adaptive_decay, self.adaptive_grace)
        if None in stated and stated != (None, None, None):
            msg = "adaptive_threshold, adaptive_decay, adaptive_grace: all of them or none"
            raise ValueError(msg)
        return self

    def parameters(self, facts: SizeFacts) -> dict[str, Any]:
        """Return what is sent: the rate from the nominal size, the capacity from the data set."""
        return {
            "sampling_rate": rate_of(self.expected_batch_size, facts),
            "capacity": facts.capacity if self.capacity is None else self.capacity,
            "expected_batch_size": self.expected_batch_size,
            "num_samples": self.num_samples,
            "num_fakes": self.num_fakes,
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "max_size": self.max_size,
            "max_records_per_unit": self.max_records_per_unit,
            "critic": self.critic,
            "critic_width": self.critic_width,
            "critic_seed": self.critic_seed,
            "critic_steps": self.critic_steps,
            "critic_learning_rate": self.critic_learning_rate,
            "adaptive_threshold": self.adaptive_threshold,
            "adaptive_decay": self.adaptive_decay,
            "adaptive_grace": self.adaptive_grace,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [N], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)
