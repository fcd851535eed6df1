"""What an analyst asks of the curator for DP-MERF-AE; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels
from analyst.recipes.size_facts import SizeFacts, rate_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpMerfAeConfig:
    """DP-MERF-AE: an autoencoder by DP-SGD and one released embedding of its codes."""

    wire_name: ClassVar[str] = "dp-merf-ae"
    pays_per_step: ClassVar[bool] = False

    kind: Literal["dp-merf-ae"]
    expected_batch_size: Annotated[
        float, Field(gt=0, description="records of an update; over the nominal size, the rate")
    ]
    capacity: Annotated[
        int | None, Field(ge=1, description="rows of the padded private batch [the data set's]")
    ] = None
    max_size: Annotated[
        int, Field(ge=1, description="most units, at least what the data set declares")
    ]
    max_records_per_unit: Annotated[
        int, Field(ge=1, description="most records of one unit, likewise; 1 without groups")
    ]
    autoencoder: Annotated[Literal["mlp"], Field(description="its named architecture")]
    hidden_width: Annotated[int, Field(ge=1, description="hidden units of encoder and decoder")]
    code_width: Annotated[int, Field(ge=1, description="entries of a code")]
    autoencoder_seed: Annotated[int, Field(ge=0, description="public seed of its first weights")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on each example's gradient (C)")]
    training_noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / (C times records per unit), of a sum")
    ]
    training_steps: Annotated[int, Field(ge=1, description="paid updates of the autoencoder")]
    training_learning_rate: Annotated[float, Field(gt=0, description="of its Adam")]
    averaging: Annotated[float, Field(ge=0, lt=1, description="decay of its averaged weights")]
    num_features: Annotated[int, Field(ge=2, description="features of codes")]
    bandwidths: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(min_length=1, description="kernel scales of codes in (-1, 1), comma separated"),
    ]
    feature_seed: Annotated[int, Field(ge=0, description="public seed of the features")]
    noise_multiplier: Annotated[
        float, Field(gt=0, description="noise std / sensitivity of the embedding (z)")
    ]
    count_scale: Annotated[float, Field(gt=0, description="weight of the class-count feature")]
    images_per_class: Annotated[
        int, Field(ge=1, description="generated codes per class and step (not sent)")
    ]

    def parameters(self, facts: SizeFacts) -> dict[str, Any]:
        """Return what is sent: the rate from the nominal size, the capacity from the data set."""
        return {
            "sampling_rate": rate_of(self.expected_batch_size, facts),
            "capacity": facts.capacity if self.capacity is None else self.capacity,
            "expected_batch_size": self.expected_batch_size,
            "max_size": self.max_size,
            "max_records_per_unit": self.max_records_per_unit,
            "autoencoder": self.autoencoder,
            "hidden_width": self.hidden_width,
            "code_width": self.code_width,
            "autoencoder_seed": self.autoencoder_seed,
            "clip_norm": self.clip_norm,
            "training_noise_multiplier": self.training_noise_multiplier,
            "training_steps": self.training_steps,
            "training_learning_rate": self.training_learning_rate,
            "averaging": self.averaging,
            "num_features": self.num_features,
            "bandwidths": list(self.bandwidths),
            "feature_seed": self.feature_seed,
            "noise_multiplier": self.noise_multiplier,
            "count_scale": self.count_scale,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [images_per_class * classes], balanced."""
        return balanced_labels(self.images_per_class * num_classes, num_classes, generator)
