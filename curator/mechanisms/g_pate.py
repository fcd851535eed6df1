"""G-PATE: teachers' directions on fresh public projections, voted on or averaged, with noise.

Statement and proof: g_pate.md. What is released are counts of bins, or an average; which bin wins
and what that means for pixels is worked out from there.

Shape legend: K teachers, k of them at a time, B samples, D pixels, P projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, final

import torch
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.critic_training import image_gradients
from curator.divergences.device import compute_device
from curator.divergences.public_draws import public_normals
from curator.divergences.teacher_directions import (
    back_projected,
    bins_of,
    middles_of_winners,
    projected_directions,
)
from curator.mechanisms.g_pate_spec import GPateSpec, check_projections
from curator.mechanisms.specification import check_rows
from curator.mechanisms.teachers import Taught, Teachers, silent
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean
from curator.sanitizer.post_process import post_process
from curator.sanitizer.votes import release_votes

Directions = Callable[[], Iterator[tuple[Tensor, Tensor]]]


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class GPateState:
    """What a run is between two steps: private teachers, and how many steps there were."""

    taught: Taught
    num_steps: int

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "GPateState(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: teachers hold private records, as weights.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class GPate:
    """Answers each step with what teachers agree on, projection by projection.

    References:
        [long:21], with noise on every bin in place of accounting by the data.
    """

    durability: Final = "replay"

    def __init__(self, spec: GPateSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        check_projections(spec, space)
        self.spec = spec
        self._space = space
        self._teachers = Teachers(spec, space)

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
            One Gaussian release for all B P questions together, or for the whole average, of which
            one unit moves one teacher's part. It does not depend on what the votes are.
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

    def start(self, batches: Iterable[Private[RecordBatch]]) -> GPateState:
        """Return teachers that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return GPateState(taught=self._teachers.begin(batches), num_steps=0)

    def gradient(
        self, state: GPateState, samples: Samples, noise: NoiseSource
    ) -> tuple[GPateState, Release]:
        """Train the teachers, release what they agree on, and take it back to pixels.

        Args:
            state: Of `start`, or of the step before.
            samples: B rows that passed `check_samples`.
            noise: Secret randomness.

        Returns:
            The next state, and B rows: the directions in which images get less real.

        Privacy:
            Teacher k is a function of shard k, the images so far and public seeds, and projections
            are public; so one unit moves all counts by at most sqrt(2 B P), or the average by at
            most 2 C sqrt(B) / K. What follows is post-processing. Proof: g_pate.md.

        References:
            [long:21], algorithm 1.
        """
        onehot_NL = self._teachers.onehot(samples.labels_N.to(compute_device()))
        images_ND = samples.images_ND.to(compute_device(), torch.float32)
        projection_DP = self._projection(state.num_steps)
        taught = state.taught

        def directions() -> Iterator[tuple[Tensor, Tensor]]:
            nonlocal taught
            taught = self._teachers.train(state.taught, images_ND, onehot_NL)
            start = 0
            for part in image_gradients(
                self._teachers.shape, taught.ensemble.critics, images_ND, onehot_NL
            ):
                said = projected_directions(part, projection_DP)
                yield said, silent(taught, said, start)
                start += len(said)

        average = self.spec.aggregation == "mean"
        released = (self._average if average else self._votes)(directions, noise)
        agreed = post_process(released, lambda values: self._pixels(values, projection_DP.cpu()))
        return GPateState(taught=taught, num_steps=state.num_steps + 1), agreed

    def pack(self, state: GPateState) -> dict[str, Tensor]:
        """Return the teachers and the number of steps; shards are read again.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.

        Privacy:
            Private values, for the curator's own disk.
        """
        steps = torch.tensor([state.num_steps])
        return {**self._teachers.pack(state.taught), "num_steps": steps}

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> GPateState:
        """Return the state that was packed.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.

        Returns:
            The same state, bit for bit.

        Privacy:
            As for `start`: teacher k is of the shard k that is read again.
        """
        taught = self._teachers.unpack(tensors, batches)
        return GPateState(taught=taught, num_steps=int(tensors["num_steps"]))

    def _votes(self, directions: Directions, noise: NoiseSource) -> Release:
        """Return the noised counts of bins: (B P, bins).

        Privacy:
            One Gaussian release; one teacher moves it by at most sqrt(2 B P).
        """
        spec = self.spec

        def compute() -> Iterator[Tensor]:
            for said_kBP, empty_k1 in directions():
                chosen = bins_of(said_kBP.flatten(1), spec.clip_norm, spec.num_bins)
                yield torch.where(empty_k1, -1, chosen)

        return release_votes(
            compute, ballot=spec.ballot, noise_multiplier=spec.noise_multiplier, noise=noise
        )

    def _average(self, directions: Directions, noise: NoiseSource) -> Release:
        """Return the noised average of directions: (B, P).

        Privacy:
            One Gaussian release; one teacher moves it by at most 2 C sqrt(B) / K.
        """
        spec = self.spec

        def compute() -> Iterator[Tensor]:
            for said_kBP, empty_k1 in directions():
                yield torch.where(empty_k1.unsqueeze(2), 0.0, said_kBP)

        return release_critic_mean(
            compute,
            num_critics=spec.num_teachers,
            shape=(spec.num_samples, spec.num_projections),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )

    def _projection(self, step: int) -> Tensor:
        """Return the public projection of a step.

        Privacy:
            Public numbers.
        """
        size = (self._space.dimension, self.spec.num_projections)
        drawn = public_normals(self.spec.projection_seed, f"step|{step}", size[0] * size[1])
        return drawn.reshape(size).to(compute_device())

    def _pixels(self, released: Tensor, projection_DP: Tensor) -> Tensor:
        """Return what was released as rows of pixels.

        Privacy:
            Reads released and public values only.
        """
        spec = self.spec
        if spec.aggregation == "votes":
            agreed = middles_of_winners(released, spec.clip_norm)
            released = agreed.reshape(spec.num_samples, spec.num_projections)
        return back_projected(released.to(torch.float32), projection_DP)
