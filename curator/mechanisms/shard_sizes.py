"""How large networks of shards may be, by the specification of a run: one network a shard.

Critics, teachers and feature extractors are such networks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from curator.divergences.critic_training import CriticOptimizer
from curator.divergences.critics import CriticShape
from curator.mechanisms.specification import MAX_ROWS, Specification, refuse_beyond
from curator.mechanisms.state_size import networks_bytes, shards_bytes
from curator.privacy.batches import ImageSpace

MAX_COORDINATES: Final = 1 << 24  # of one answer
_MAX_SHARD_BYTES: Final = 1 << 30
_MAX_SHOWN_VALUES: Final = 1 << 29  # pixels that one update shows to all networks, as floats
_MAX_PARAMETERS: Final = 1 << 27  # of all; with moments and slopes four times as many floats
MAX_STEP_WORK: Final = 1 << 41  # multiplications of scores: minutes on a few cores
_MAX_START_WORK: Final = 1 << 44


def network_shape(kind: Literal["mlp", "conv"], width: int, space: ImageSpace) -> CriticShape:
    """Return the sizes of a network for the images of a data set."""
    return CriticShape(
        kind=kind,
        width=width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSizes:
    """What a specification says of its networks; `word` is what its fields call one of them.

    `without` names parameters that these networks do not have.
    """

    word: str
    count: int
    capacity: int
    kind: Literal["mlp", "conv"]
    width: int
    seed: int
    without: Collection[str] = ()

    def shape(self, space: ImageSpace) -> CriticShape:
        """Return the sizes of each network.

        Raises:
            MalformedRequest: If all together would need absurd amounts of memory.

        Privacy:
            Reads the request and public facts only.
        """
        word, shape = self.word, network_shape(self.kind, self.width, space)
        refuse_beyond(
            {
                f"num_{word}s, shard_capacity: too many images of this size": (
                    self.count * self.capacity * space.dimension * space.level_bytes,
                    _MAX_SHARD_BYTES,
                ),
                f"num_{word}s, {word}_width: too many parameters together": (
                    self.count * shape.num_parameters,
                    _MAX_PARAMETERS,
                ),
            }
        )
        return shape

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of networks with Adam's moments."""
        networks = networks_bytes(self.shape(space), self.count, without=self.without)
        return shards_bytes(self.count, self.capacity, space) + networks


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSizes:
    """How much networks are shown: `batch` records of a shard an update, and `num_samples` images.

    A step makes `steps` updates; the first makes `warm_start_steps` more.
    """

    batch: int
    num_samples: int
    steps: int
    warm_start_steps: int

    def check(self, sizes: NetworkSizes, space: ImageSpace) -> None:
        """Refuse sizes that would need absurd amounts of memory or time.

        Raises:
            MalformedRequest: If they would.

        Privacy:
            Reads the request and public facts only.
        """
        word, shape = sizes.word, sizes.shape(space)
        work = sizes.count * (2 * self.batch + self.num_samples) * shape.multiplications
        refuse_beyond(
            {
                "num_samples: too many images of this size": (
                    self.num_samples * space.dimension,
                    MAX_COORDINATES,
                ),
                f"num_{word}s, {word}_batch: too many images of this size": (
                    sizes.count * self.batch * space.dimension,
                    _MAX_SHOWN_VALUES,
                ),
                f"num_{word}s, {word}_steps: too much work for one step": (
                    self.steps * work,
                    MAX_STEP_WORK,
                ),
                f"num_{word}s, warm_start_steps: too much work for the first step": (
                    self.warm_start_steps * work,
                    _MAX_START_WORK,
                ),
            }
        )


class ShardSpecification(Specification):
    """With a network for each of K shards of `shard_capacity` rows; steps have `num_samples` rows.

    `word` is what the fields of a network begin with: `num_WORDs`, its kind `WORD`, `WORD_width`
    and `WORD_seed`.
    """

    word: ClassVar[str]
    without: ClassVar[Collection[str]] = ()

    shard_capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @property
    def networks(self) -> NetworkSizes:
        """The networks."""
        return NetworkSizes(
            word=self.word,
            count=getattr(self, f"num_{self.word}s"),
            capacity=self.shard_capacity,
            kind=getattr(self, self.word),
            width=self._of_each("width"),
            seed=self._of_each("seed"),
            without=self.without,
        )

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of networks with Adam's moments."""
        return self.networks.kept_bytes(space)

    def _of_each(self, name: str) -> Any:
        return getattr(self, f"{self.word}_{name}")


class TrainedShardSpecification(ShardSpecification):
    """With networks that learn to tell records from images.

    Every step updates each network `WORD_steps` times with `WORD_batch` records of its shard, at
    `WORD_learning_rate`. The first step makes `warm_start_steps` more updates.
    """

    warm_start_steps: Annotated[int, Field(ge=0, le=10_000)]
    gradient_penalty: Annotated[float, Field(ge=0, le=1e3)]

    @property
    def training(self) -> TrainingSizes:
        """What networks are shown."""
        return TrainingSizes(
            batch=self._of_each("batch"),
            num_samples=self.num_samples,
            steps=self._of_each("steps"),
            warm_start_steps=self.warm_start_steps,
        )

    @property
    def optimizer(self) -> CriticOptimizer:
        """How networks learn."""
        rate = self._of_each("learning_rate")
        return CriticOptimizer(learning_rate=rate, penalty=self.gradient_penalty)

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: B."""
        return self.num_samples
