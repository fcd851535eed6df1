"""What an analyst asks of the curator for adversarial DP-Sinkhorn; wire names are field names.

Nothing that carries privacy has a default: a recipe states it or does not load.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AdversarialDpSinkhornConfig:
    """Adversarial DP-Sinkhorn: one feature extractor a shard, all of them asked at every step."""

    wire_name: ClassVar[str] = "adversarial-dp-sinkhorn"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["adversarial-dp-sinkhorn"]
    num_extractors: Annotated[int, Field(ge=1, description="shards, each with an extractor (K)")]
    shard_capacity: Annotated[int, Field(ge=1, description="most rows of a shard; others are cut")]
    num_samples: Annotated[int, Field(ge=1, description="generated rows that meet the records (n)")]
    num_debias: Annotated[int, Field(ge=0, description="further rows for the self term (n')")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on the norm of the gradient (C)")]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / sensitivity (z)")]
    reg: Annotated[float, Field(gt=0, description="entropic regularisation, in units of cost")]
    label_scale: Annotated[float, Field(ge=0, description="scale of the one-hot labels (alpha)")]
    feature_scale: Annotated[float, Field(ge=0, description="length of the features in the cost")]
    extractor: Annotated[Literal["mlp", "conv"], Field(description="layers of an extractor")]
    extractor_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    extractor_seed: Annotated[int, Field(ge=0, description="public seed of the first weights")]
    extractor_steps: Annotated[int, Field(ge=0, description="updates of every extractor in a step")]
    extractor_learning_rate: Annotated[float, Field(gt=0, description="of the extractors' Adam")]

    @model_validator(mode="after")
    def _check(self) -> AdversarialDpSinkhornConfig:
        if self.num_debias > self.num_samples:
            msg = "num_debias must not exceed num_samples"
            raise ValueError(msg)
        return self

    def parameters(self, facts: object) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent: everything."""
        names = (field.name for field in fields(self) if field.name != "kind")
        return {name: getattr(self, name) for name in names}

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [n + n']: balanced, and the further rows repeat the first n' labels."""
        import torch  # here: recipes are read without it

        labels_N = balanced_labels(self.num_samples, num_classes, generator)
        return torch.cat([labels_N, labels_N[: self.num_debias]])
