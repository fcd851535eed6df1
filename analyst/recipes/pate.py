"""What an analyst asks of the curator for PATE-GAN and G-PATE; the wire names are the field names.

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
class _TeacherConfig:
    """What both methods ask of teachers."""

    num_teachers: Annotated[int, Field(ge=1, description="shards, each with a teacher (K)")]
    shard_capacity: Annotated[int, Field(ge=1, description="most rows of a shard; others are cut")]
    num_samples: Annotated[int, Field(ge=1, description="generated rows of a step (B)")]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / sensitivity (z)")]
    teacher: Annotated[Literal["mlp", "conv"], Field(description="layers of a teacher")]
    teacher_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    teacher_seed: Annotated[int, Field(ge=0, description="public seed of weights and minibatches")]
    teacher_batch: Annotated[int, Field(ge=1, description="records of a teacher's update")]
    teacher_steps: Annotated[int, Field(ge=1, description="updates of every teacher in a step")]
    warm_start_steps: Annotated[int, Field(ge=0, description="further updates in the first step")]
    teacher_learning_rate: Annotated[float, Field(gt=0, description="of the teachers' Adam")]
    gradient_penalty: Annotated[float, Field(ge=0, description="weight of the slope penalty")]

    def parameters(self, facts: object) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent: everything."""
        names = (field.name for field in fields(self) if field.name != "kind")
        return {name: getattr(self, name) for name in names}

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [B], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class PateGanConfig(_TeacherConfig):
    """PATE-GAN: teachers vote on images, and a student that learns noisy votes answers."""

    wire_name: ClassVar[str] = "pate-gan"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["pate-gan"]
    num_labelled: Annotated[int, Field(ge=1, description="rows of a step that are voted on (L)")]
    labels: Annotated[
        Literal["absolute", "relative"],
        Field(description="is it real, or is it more so with noise added than taken away"),
    ]
    reach: Annotated[float, Field(ge=0, description="std of the public noise on labelled images")]
    student: Annotated[Literal["mlp", "conv"], Field(description="layers of the student")]
    student_width: Annotated[int, Field(ge=1, description="hidden units, or first channels")]
    student_seed: Annotated[int, Field(ge=0, description="public seed of the student and noise")]
    student_batch: Annotated[int, Field(ge=1, description="questions of a student's update")]
    student_steps: Annotated[int, Field(ge=1, description="updates of the student in a step")]
    student_learning_rate: Annotated[float, Field(gt=0, description="of the student's Adam")]
    pool_steps: Annotated[int, Field(ge=1, description="steps whose questions it remembers")]
    residual: Annotated[
        float, Field(ge=0, description="part of what labels say beyond the student, in the answer")
    ]

    @model_validator(mode="after")
    def _check(self) -> PateGanConfig:
        if self.num_labelled > self.num_samples:
            msg = "num_labelled must not exceed num_samples"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GPateConfig(_TeacherConfig):
    """G-PATE: teachers agree on directions, projection by projection."""

    wire_name: ClassVar[str] = "g-pate"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["g-pate"]
    num_projections: Annotated[int, Field(ge=1, description="fresh public directions a step (P)")]
    projection_seed: Annotated[int, Field(ge=0, description="public seed of the directions")]
    aggregation: Annotated[
        Literal["votes", "mean"], Field(description="majority of bins, or the clipped average")
    ]
    num_bins: Annotated[int, Field(ge=0, description="bins of a projection; 0 with 'mean'")]
    clip_norm: Annotated[
        float, Field(gt=0, description="bound on a projection, or on an image's together (C)")
    ]
