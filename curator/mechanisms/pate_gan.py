"""PATE-GAN: teachers vote on generated images, a student learns the noisy votes and answers.

Statement and proof: pate_gan.md. The noised counts are all that ever leaves the teachers; the
student is made of them and of public values, so its gradients are free.

Shape legend: N = B samples, the first L of them labelled, D pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences.teachers import opinions
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.pate_gan_student import Student, StudentSizes, Studied
from curator.mechanisms.shard_networks import NetworkState, networks_of, silent
from curator.mechanisms.specification import MAX_ROWS
from curator.mechanisms.state_size import networks_bytes, rows_bytes
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, Sealed
from curator.privacy.release import Release
from curator.sanitizer.post_process import post_process, release_values
from curator.sanitizer.votes import Ballot, count_scale, release_votes


class PateGanSpec(TeacherSpec):
    """Public parameters of one run; the shared ones are those of `TeacherSpec`.

    The first `num_labelled` L rows of a step are labelled, with public normal noise of standard
    deviation `reach` on every pixel. `labels` says how: "absolute" asks whether an image is real,
    "relative" whether it is more so with the noise added than with it taken away.
    `noise_multiplier` is over sqrt(L), the most that one unit moves the counts of a step. The
    student makes `student_steps` updates a step, each with `student_batch` of the questions of the
    last `pool_steps` steps. `residual` times what each label says beyond what the student expected
    is added to the answer, in the direction of the image's own noise.
    """

    num_labelled: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    labels: Literal["absolute", "relative"]
    reach: Annotated[float, Field(ge=0, le=2)]
    student: Literal["mlp", "conv"]
    student_width: Annotated[int, Field(ge=1, le=1024)]
    student_seed: Annotated[int, Field(ge=0, lt=2**63)]
    student_batch: Annotated[int, Field(ge=1, le=4096)]
    student_steps: Annotated[int, Field(ge=1, le=1000)]
    student_learning_rate: Annotated[float, Field(gt=0, le=1)]
    pool_steps: Annotated[int, Field(ge=1, le=10_000)]
    residual: Annotated[float, Field(ge=0, le=10)]

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if self.num_labelled > self.num_samples:
            msg = "num_labelled must not exceed num_samples"
            raise ValueError(msg)
        if (self.labels == "relative" or self.residual > 0) and self.reach == 0:
            msg = "relative labels, and a residual, need a reach above 0"
            raise ValueError(msg)
        count_scale(self.ballot, self.noise_multiplier)
        return self

    @property
    def ballot(self) -> Ballot:
        """What every teacher is asked in a step."""
        return Ballot(num_voters=self.num_teachers, num_questions=self.num_labelled, num_options=1)

    @property
    def learning(self) -> StudentSizes:
        """The student."""
        return StudentSizes(
            kind=self.student,
            width=self.student_width,
            pool=self.pool_steps * self.num_labelled,
            shown=2 * self.student_batch * self.student_steps,
        )

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of teachers, of the student, and of the questions it remembers."""
        sides = 2 if self.labels == "relative" else 1
        numbers = sides * space.dimension + space.num_classes + 1
        most = (self.pool_steps + 1) * self.num_labelled  # the oldest go after the newest come
        student = networks_bytes(self.learning.shape(space), 1) + rows_bytes(most, numbers)
        return super().kept_bytes(space) + student


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PateGanState(Sealed):
    """What a run is between two steps: private teachers, and a student of what was released."""

    taught: NetworkState
    studied: Studied


@final
class PateGan(StatefulMechanism):
    """Answers each step with the gradient of a student that saw noisy votes only.

    References:
        [jordon:19], with Gaussian noise on the count of one side and no accounting by the data.
    """

    name = "pate-gan"
    specification = PateGanSpec
    durability = "every-step"  # the student is made of what was released
    sensitivity = (
        "one of K teachers changes its answer to each of L questions, of which one side is "
        "counted, so the counts move by at most sqrt(L); the student is made of them"
    )
    spec: PateGanSpec

    def __init__(self, spec: PateGanSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.networks = networks_of(spec, space)
        self._student = Student(spec, space)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of the counts of L questions, of which one unit moves one teacher's
            answers. It does not depend on what the votes are.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def start(self, batches: Iterable[Private[RecordBatch]]) -> PateGanState:
        """Return teachers and a student that have seen nothing yet.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return PateGanState(taught=self.networks.start(batches), studied=self._student.begin())

    def gradient(
        self, state: PateGanState, samples: Samples, noise: NoiseSource
    ) -> tuple[PateGanState, Release]:
        """Train the teachers, release their noised votes to the student, and answer from it.

        Returns:
            The next state, and B rows: the gradients of minus the student's scores, with what the
            labels of this step say beyond them.

        Privacy:
            One unit moves the L counts by at most sqrt(L): teacher k is a function of shard k, the
            images so far and public seeds. What follows is post-processing. Proof: pate_gan.md.

        References:
            [jordon:19], algorithm 1.
        """
        spec = self.spec
        images_ND, onehot_NL = self.networks.images(samples)
        asked = self._student.questions(state.studied.num_steps, images_ND, onehot_NL)
        taught = state.taught

        def compute() -> Iterator[Tensor]:
            nonlocal taught
            images = images_ND, onehot_NL
            taught = self.networks.trained(state.taught, spec, images)
            last = taught.ensemble.num_updates - 1
            shown = self.networks.minibatch(taught, f"update|{last}", spec.teacher_batch, images)
            start = 0
            for said in opinions(self.networks.shape, taught.ensemble.critics, asked, shown):
                yes = said & ~silent(taught.shards, said, start)
                yield torch.where(yes, 0, -1)
                start += len(said)

        released = release_votes(
            compute, ballot=spec.ballot, noise_multiplier=spec.noise_multiplier, noise=noise
        )
        studied, surprise_L = self._student.study(state.studied, asked, release_values(released))
        rows_ND = self._student.gradients(studied, surprise_L, images_ND, onehot_NL)
        following = PateGanState(taught=taught, studied=studied)
        return following, post_process(released, lambda _: rows_ND)

    def pack(self, state: PateGanState) -> dict[str, Tensor]:
        """Return teachers, student and its questions; shards are read again.

        The number of steps decides the shapes of the questions.
        """
        return {**self.networks.pack(state.taught), **self._student.pack(state.studied)}

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> PateGanState:
        """See `StatefulMechanism`."""
        return PateGanState(
            taught=self.networks.unpack(tensors, batches), studied=self._student.unpack(tensors)
        )
