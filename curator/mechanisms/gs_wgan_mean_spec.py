"""The public parameters of a GS-WGAN run with averaged critics, and what they may add up to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from curator.divergences.critic_training import CriticOptimizer
from curator.divergences.critics import CriticShape
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.mechanisms.state_size import (
    LABEL_FLOATS,
    networks_bytes,
    rows_bytes,
    shards_bytes,
)
from curator.privacy.records import ImageSpace
from curator.sanitizer.averaged import MAX_CRITICS

_MAX_COORDINATES = 1 << 24  # of one answer
_MAX_SHARD_BYTES = 1 << 30
_MAX_SHOWN_VALUES = 1 << 29  # pixels that one update shows to all critics, as floats
_MAX_PARAMETERS = 1 << 27  # of all critics; with moments and slopes four times as many floats
_MAX_STEP_WORK = 1 << 41  # multiplications of scores: minutes on a few cores
_MAX_START_WORK = 1 << 44


class GsWganMeanSpec(Specification):
    """Public parameters of one run.

    `num_critics` K shards of `shard_capacity` rows have a critic each; every step has `num_samples`
    B generated rows, updates every critic `critic_steps` times with `critic_batch` records of its
    shard, and releases the average of the image gradients, each clipped to `clip_norm`. The first
    step makes `warm_start_steps` more updates. `noise_multiplier` is over 2 C sqrt(B) / K.
    """

    num_critics: Annotated[int, Field(ge=1, le=MAX_CRITICS)]
    shard_capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    noise_multiplier: NoiseMultiplier
    critic: Literal["mlp", "conv"]
    critic_width: Annotated[int, Field(ge=1, le=1024)]
    critic_seed: Annotated[int, Field(ge=0, lt=2**63)]
    critic_batch: Annotated[int, Field(ge=1, le=4096)]
    critic_steps: Annotated[int, Field(ge=1, le=100)]
    warm_start_steps: Annotated[int, Field(ge=0, le=10_000)]
    critic_learning_rate: Annotated[float, Field(gt=0, le=1)]
    gradient_penalty: Annotated[float, Field(ge=0, le=1e3)]

    @property
    def optimizer(self) -> CriticOptimizer:
        """How critics learn."""
        return CriticOptimizer(
            learning_rate=self.critic_learning_rate, penalty=self.gradient_penalty
        )

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of critics with Adam's moments."""
        shards = shards_bytes(self.num_critics, self.shard_capacity, space)
        return shards + networks_bytes(critic_shape(self, space), self.num_critics)

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.num_samples, space.dimension + LABEL_FLOATS)


def critic_shape(spec: GsWganMeanSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of each critic.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Returns:
        The sizes.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = CriticShape(
        kind=spec.critic,
        width=spec.critic_width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )
    rows = 2 * spec.critic_batch + spec.num_samples
    update = spec.num_critics * rows * shape.multiplications
    if spec.num_samples * space.dimension > _MAX_COORDINATES:
        _refuse("num_samples: too many images of this size")
    if spec.num_critics * spec.shard_capacity * space.dimension > _MAX_SHARD_BYTES:
        _refuse("num_critics, shard_capacity: too many images of this size")
    if spec.num_critics * spec.critic_batch * space.dimension > _MAX_SHOWN_VALUES:
        _refuse("num_critics, critic_batch: too many images of this size")
    if spec.num_critics * shape.num_parameters > _MAX_PARAMETERS:
        _refuse("num_critics, critic_width: too many parameters together")
    if spec.critic_steps * update > _MAX_STEP_WORK:
        _refuse("num_critics, critic_steps: too much work for one step")
    if spec.warm_start_steps * update > _MAX_START_WORK:
        _refuse("num_critics, warm_start_steps: too much work for the first step")
    return shape


def _refuse(detail: str) -> None:
    raise MalformedRequest(detail)
