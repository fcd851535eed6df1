"""Teachers: one critic a shard, all of them trained at every step on a public schedule.

What PATE-GAN and G-PATE have in common. Nothing is ever exchanged between teachers: what a teacher
is depends on its own shard, on the images sent so far and on public seeds.

Shape legend: K teachers, P places of a shard, R records of a minibatch, N images, D pixels,
L classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NoReturn, final

from pydantic import Field
from torch import Tensor

from curator.divergences.critic_training import CriticOptimizer, Ensemble, Minibatch, update
from curator.divergences.critics import CriticShape, initial_critics, public_uniforms
from curator.divergences.device import compute_device
from curator.divergences.packed import pack_ensemble, unpack_ensemble
from curator.divergences.progress import told
from curator.errors import MalformedRequest
from curator.mechanisms.shard_minibatch import onehot, shard_minibatch
from curator.mechanisms.shards import Shards, gather_shards
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.mechanisms.state_size import networks_bytes, shards_bytes
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch
from curator.sanitizer.votes import MAX_VOTERS

_MAX_COORDINATES = 1 << 24  # of one answer
_MAX_SHARD_BYTES = 1 << 30
_MAX_SHOWN_VALUES = 1 << 29  # pixels that one update shows to all teachers, as floats
_MAX_PARAMETERS = 1 << 27  # of all teachers; with moments and slopes four times as many floats
_MAX_STEP_WORK = 1 << 41  # multiplications of scores: minutes on a few cores
_MAX_START_WORK = 1 << 44


class TeacherSpec(Specification):
    """Public parameters that every method with teachers has.

    `num_teachers` K shards of `shard_capacity` rows have a teacher each; every step has
    `num_samples` B generated rows and updates every teacher `teacher_steps` times with
    `teacher_batch` records of its shard. The first step makes `warm_start_steps` more updates.
    """

    num_teachers: Annotated[int, Field(ge=1, le=MAX_VOTERS)]
    shard_capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    noise_multiplier: NoiseMultiplier
    teacher: Literal["mlp", "conv"]
    teacher_width: Annotated[int, Field(ge=1, le=1024)]
    teacher_seed: Annotated[int, Field(ge=0, lt=2**63)]
    teacher_batch: Annotated[int, Field(ge=1, le=4096)]
    teacher_steps: Annotated[int, Field(ge=1, le=100)]
    warm_start_steps: Annotated[int, Field(ge=0, le=10_000)]
    teacher_learning_rate: Annotated[float, Field(gt=0, le=1)]
    gradient_penalty: Annotated[float, Field(ge=0, le=1e3)]

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of teachers with Adam's moments."""
        shards = shards_bytes(self.num_teachers, self.shard_capacity, space)
        return shards + networks_bytes(teacher_shape(self, space), self.num_teachers)


def teacher_shape(spec: TeacherSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of each teacher.

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
        kind=spec.teacher,
        width=spec.teacher_width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )
    rows = 2 * spec.teacher_batch + spec.num_samples
    work = spec.num_teachers * rows * shape.multiplications
    limits = {
        "num_samples: too many images of this size": (
            spec.num_samples * space.dimension,
            _MAX_COORDINATES,
        ),
        "num_teachers, shard_capacity: too many images of this size": (
            spec.num_teachers * spec.shard_capacity * space.dimension,
            _MAX_SHARD_BYTES,
        ),
        "num_teachers, teacher_batch: too many images of this size": (
            spec.num_teachers * spec.teacher_batch * space.dimension,
            _MAX_SHOWN_VALUES,
        ),
        "num_teachers, teacher_width: too many parameters together": (
            spec.num_teachers * shape.num_parameters,
            _MAX_PARAMETERS,
        ),
        "num_teachers, teacher_steps: too much work for one step": (
            spec.teacher_steps * work,
            _MAX_STEP_WORK,
        ),
        "num_teachers, warm_start_steps: too much work for the first step": (
            spec.warm_start_steps * work,
            _MAX_START_WORK,
        ),
    }
    for detail, (wanted, most) in limits.items():
        if wanted > most:
            raise MalformedRequest(detail)
    return shape


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Taught:
    """The shards, and teachers that remember them."""

    shards: Shards
    ensemble: Ensemble

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "Taught(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: teachers hold private records, as weights.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class Teachers:
    """How the teachers of a run begin, learn and are kept."""

    def __init__(self, spec: TeacherSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.shape = teacher_shape(spec, space)
        self._spec = spec
        self._space = space
        self._optimizer = CriticOptimizer(
            learning_rate=spec.teacher_learning_rate, penalty=spec.gradient_penalty
        )

    def begin(self, batches: Iterable[Private[RecordBatch]]) -> Taught:
        """Return the shards with teachers that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Privacy:
            One unit changes one shard. What is returned is private.
        """
        spec = self._spec
        teachers = initial_critics(self.shape, spec.num_teachers, spec.teacher_seed)
        teachers = {name: value.to(compute_device()) for name, value in teachers.items()}
        return Taught(shards=self._shards(batches), ensemble=Ensemble.start(teachers))

    def train(self, taught: Taught, images_ND: Tensor, onehot_NL: Tensor) -> Taught:
        """Return the teachers after the updates of one step.

        Args:
            taught: Before it.
            images_ND: Generated images of the step, on the device of this process.
            onehot_NL: Their labels.

        Privacy:
            Teacher k is a function of shard k, the images so far and public seeds. Called inside
            the sanitizer's guard only.
        """
        done = taught.ensemble.num_updates
        first = self._spec.warm_start_steps if done == 0 else 0
        turns = range(done, done + first + self._spec.teacher_steps)
        lessons = (
            self.lesson(taught.shards, turn, images_ND, onehot_NL)
            for turn in (told(turns) if first else turns)
        )
        ensemble = update(self.shape, self._optimizer, taught.ensemble, lessons)
        return Taught(shards=taught.shards, ensemble=ensemble)

    def lesson(self, shards: Shards, turn: int, images_ND: Tensor, onehot_NL: Tensor) -> Minibatch:
        """Return what update number `turn` shows to each teacher.

        Args:
            shards: Of the run.
            turn: Public number.
            images_ND: Generated images of the step.
            onehot_NL: Their labels.

        Privacy:
            Row k depends on shard k and public numbers. An empty shard shows padding.
        """
        size = (2, self._spec.num_teachers, self._spec.teacher_batch)
        drawn = public_uniforms(self._spec.teacher_seed, f"update|{turn}", math.prod(size))
        return shard_minibatch(shards, drawn.reshape(size), (images_ND, onehot_NL), self._space)

    def onehot(self, labels: Tensor) -> Tensor:
        """Return labels as rows of an identity matrix.

        Args:
            labels: Class indices.

        Privacy:
            Elementwise.
        """
        return onehot(labels, self._space)

    def pack(self, taught: Taught) -> dict[str, Tensor]:
        """Return the teachers with Adam's moments; shards are read again.

        Args:
            taught: Of a state.

        Privacy:
            Private values, for the curator's own disk.
        """
        return pack_ensemble(taught.ensemble)

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> Taught:
        """Return the teachers that were packed, beside the shards that are read again.

        Args:
            tensors: Of `pack`, perhaps among others.
            batches: As for `begin`, of the same records.

        Privacy:
            As for `begin`.
        """
        return Taught(shards=self._shards(batches), ensemble=unpack_ensemble(tensors))

    def _shards(self, batches: Iterable[Private[RecordBatch]]) -> Shards:
        spec = self._spec
        shards = gather_shards(batches, spec.num_teachers, spec.shard_capacity, self._space)
        return shards.on(compute_device())


def silent(taught: Taught, part: Tensor, start: int) -> Tensor:
    """Return which of some teachers have an empty shard and say nothing, as a column.

    Args:
        taught: All teachers.
        part: What some of them say, with a first axis of k.
        start: The first of them.

    Returns:
        Booleans (k, 1).

    Privacy:
        Row k depends on the size of shard k.
    """
    empty_K = taught.shards.counts_K == 0
    return empty_K[start : start + len(part)].unsqueeze(1).to(part.device)
