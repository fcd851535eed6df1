"""Teachers: one critic a shard; what the specifications of PATE-GAN and G-PATE have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from curator.mechanisms.shard_sizes import TrainedShardSpecification
from curator.sanitizer.votes import MAX_VOTERS


class TeacherSpec(TrainedShardSpecification):
    """Public parameters that every method with teachers has.

    `num_teachers` K shards of `shard_capacity` rows have a teacher each; every step has
    `num_samples` B generated rows and updates every teacher `teacher_steps` times with
    `teacher_batch` records of its shard. The first step makes `warm_start_steps` more updates.
    """

    word = "teacher"

    num_teachers: Annotated[int, Field(ge=1, le=MAX_VOTERS)]
    teacher: Literal["mlp", "conv"]
    teacher_width: Annotated[int, Field(ge=1, le=1024)]
    teacher_seed: Annotated[int, Field(ge=0, lt=2**63)]
    teacher_batch: Annotated[int, Field(ge=1, le=4096)]
    teacher_steps: Annotated[int, Field(ge=1, le=100)]
    teacher_learning_rate: Annotated[float, Field(gt=0, le=1)]
