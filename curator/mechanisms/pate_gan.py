"""PATE-GAN: teachers vote on generated images, a student learns the noisy votes and answers.

Statement and proof: pate_gan.md. The noised counts are all that ever leaves the teachers; the
student is made of them and of public values, so its gradients are free.

Shape legend: N = B samples, the first L of them labelled, D pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, final

import torch
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.device import compute_device
from curator.divergences.teacher_votes import opinions
from curator.mechanisms.pate_gan_spec import PateGanSpec
from curator.mechanisms.pate_gan_student import Student, Studied
from curator.mechanisms.specification import check_rows
from curator.mechanisms.teachers import Taught, Teachers, silent
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.post_process import post_process, release_values
from curator.sanitizer.votes import release_votes


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class PateGanState:
    """What a run is between two steps: private teachers, and a student of what was released."""

    taught: Taught
    studied: Studied

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "PateGanState(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: teachers hold private records, as weights.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class PateGan:
    """Answers each step with the gradient of a student that saw noisy votes only.

    References:
        [jordon:19], with Gaussian noise on the count of one side and no accounting by the data.
    """

    durability: Final = "every-step"  # the student is made of what was released

    def __init__(self, spec: PateGanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self._space = space
        self._teachers = Teachers(spec, space)
        self._student = Student(spec, space)

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: B."""
        return self.spec.num_samples

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing is released before the first step, and teachers are trained within steps.
        """
        return NoEvent()

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of the counts of L questions, of which one unit moves one teacher's
            answers. It does not depend on what the votes are.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not B rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        num_rows = self.spec.num_samples
        check_rows(samples, self._space, range(num_rows, num_rows + 1))

    def start(self, batches: Iterable[Private[RecordBatch]]) -> PateGanState:
        """Return teachers and a student that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return PateGanState(taught=self._teachers.begin(batches), studied=self._student.begin())

    def gradient(
        self, state: PateGanState, samples: Samples, noise: NoiseSource
    ) -> tuple[PateGanState, Release]:
        """Train the teachers, release their noised votes to the student, and answer from it.

        Args:
            state: Of `start`, or of the step before.
            samples: B rows that passed `check_samples`.
            noise: Secret randomness.

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
        onehot_NL = self._teachers.onehot(samples.labels_N.to(compute_device()))
        images_ND = samples.images_ND.to(compute_device(), torch.float32)
        asked = self._student.questions(state.studied.num_steps, images_ND, onehot_NL)
        taught = state.taught

        def compute() -> Iterator[Tensor]:
            nonlocal taught
            taught = self._teachers.train(state.taught, images_ND, onehot_NL)
            last = taught.ensemble.num_updates - 1
            shown = self._teachers.lesson(taught.shards, last, images_ND, onehot_NL)
            start = 0
            for said in opinions(self._teachers.shape, taught.ensemble.critics, asked, shown):
                yes = said & ~silent(taught, said, start)
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

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names and types, of shapes that the number of steps decides.

        Privacy:
            Private values, for the curator's own disk.
        """
        return {**self._teachers.pack(state.taught), **self._student.pack(state.studied)}

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> PateGanState:
        """Return the state that was packed.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.

        Returns:
            The same state, bit for bit.

        Privacy:
            As for `start`: teacher k is of the shard k that is read again.
        """
        return PateGanState(
            taught=self._teachers.unpack(tensors, batches), studied=self._student.unpack(tensors)
        )
