"""Teachers: one critic a shard, all of them trained at every step on a public schedule.

What PATE-GAN and G-PATE have in common.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from curator.divergences.critic_training import CriticOptimizer
from curator.mechanisms.shard_networks import NetworkSizes, ShardNetworks, TrainingSizes
from curator.mechanisms.specification import MAX_ROWS, Specification
from curator.privacy.records import ImageSpace
from curator.sanitizer.votes import MAX_VOTERS


class TeacherSpec(Specification):
    """Public parameters that every method with teachers has.

    `num_teachers` K shards of `shard_capacity` rows have a teacher each; every step has
    `num_samples` B generated rows and updates every teacher `teacher_steps` times with
    `teacher_batch` records of its shard. The first step makes `warm_start_steps` more updates.
    """

    num_teachers: Annotated[int, Field(ge=1, le=MAX_VOTERS)]
    shard_capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    teacher: Literal["mlp", "conv"]
    teacher_width: Annotated[int, Field(ge=1, le=1024)]
    teacher_seed: Annotated[int, Field(ge=0, lt=2**63)]
    teacher_batch: Annotated[int, Field(ge=1, le=4096)]
    teacher_steps: Annotated[int, Field(ge=1, le=100)]
    warm_start_steps: Annotated[int, Field(ge=0, le=10_000)]
    teacher_learning_rate: Annotated[float, Field(gt=0, le=1)]
    gradient_penalty: Annotated[float, Field(ge=0, le=1e3)]

    @property
    def networks(self) -> NetworkSizes:
        """The teachers."""
        return NetworkSizes(
            word="teacher",
            count=self.num_teachers,
            capacity=self.shard_capacity,
            kind=self.teacher,
            width=self.teacher_width,
            seed=self.teacher_seed,
        )

    @property
    def training(self) -> TrainingSizes:
        """What teachers are shown."""
        return TrainingSizes(
            batch=self.teacher_batch,
            num_samples=self.num_samples,
            steps=self.teacher_steps,
            warm_start_steps=self.warm_start_steps,
        )

    @property
    def optimizer(self) -> CriticOptimizer:
        """How teachers learn."""
        return CriticOptimizer(
            learning_rate=self.teacher_learning_rate, penalty=self.gradient_penalty
        )

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: B."""
        return self.num_samples

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of teachers with Adam's moments."""
        return self.networks.kept_bytes(space)


def teachers_of(spec: TeacherSpec, space: ImageSpace) -> ShardNetworks:
    """Return the teachers of a run.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    spec.training.check(spec.networks, space)
    return ShardNetworks(spec.networks, space)
