"""G-PATE: teachers' directions on fresh public projections, voted on or averaged, with noise.

Statement and proof: g_pate.md. What is released are counts of bins, or an average; which bin wins
and what that means for pixels is worked out from there.

Shape legend: K teachers, k of them at a time, B samples, D pixels, P projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences.critic_training import image_gradients
from curator.divergences.critics import public_normals
from curator.divergences.device import compute_device
from curator.divergences.teachers import (
    back_projected,
    bins_of,
    middles_of_winners,
    projected_directions,
)
from curator.mechanisms.shard_networks import NetworkState, ShardMechanism, networks_of, silent
from curator.mechanisms.specification import refuse_beyond
from curator.mechanisms.state_size import LABEL_FLOATS, rows_bytes
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.averaged import fine_radius, release_critic_mean
from curator.sanitizer.post_process import post_process
from curator.sanitizer.votes import Ballot, count_scale, release_votes

Directions = Callable[[], Iterator[tuple[Tensor, Tensor]]]

_MAX_PROJECTION = 1 << 24  # entries: pixels times projections
_MAX_STEP_NUMBERS = 1 << 30  # what all teachers say in a step, bin by bin


class GPateSpec(TeacherSpec):
    """Public parameters of one run; the shared ones are those of `TeacherSpec`.

    Each teacher's direction for each of the B images has length 1 and is projected on
    `num_projections` P fresh public normal vectors. With `aggregation` "votes" each coordinate is
    cut to [-C, C], C being `clip_norm`, and falls into one of `num_bins` bins; the noise multiplier
    is over sqrt(2 B P), the most that one unit moves the counts of a step. With "mean" there are no
    bins (0), the P coordinates of an image are clipped to norm C together and averaged over
    teachers; the noise multiplier is over 2 C sqrt(B) / K.
    """

    num_projections: Annotated[int, Field(ge=1, le=1024)]
    projection_seed: Annotated[int, Field(ge=0, lt=2**63)]
    aggregation: Literal["votes", "mean"]
    num_bins: Annotated[int, Field(ge=0, le=1024)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]

    @model_validator(mode="after")
    def _check_bins(self) -> Self:
        if self.aggregation == "mean":
            if self.num_bins != 0:
                msg = "num_bins must be 0 where directions are averaged"
                raise ValueError(msg)
            fine_radius(self.noise_multiplier)
            return self
        if self.num_bins < 2:
            msg = "num_bins must be at least 2 where teachers vote"
            raise ValueError(msg)
        count_scale(self.ballot, self.noise_multiplier)
        return self

    @property
    def ballot(self) -> Ballot:
        """What every teacher is asked in a step: one question a projection of an image."""
        return Ballot(
            num_voters=self.num_teachers,
            num_questions=self.num_samples * self.num_projections,
            num_options=self.num_bins,
        )

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.num_samples, space.dimension + LABEL_FLOATS)


@final
class GPate(ShardMechanism):
    """Answers each step with what teachers agree on, projection by projection.

    References:
        [long:21], with noise on every bin in place of accounting by the data.
    """

    name = "g-pate"
    specification = GPateSpec
    durability = "replay"
    sensitivity = (
        "one of K teachers moves to another bin, or point of norm C, for each of B images, so the "
        "counts of B P projections move by at most sqrt(2 B P), an average by 2 C sqrt(B) / K"
    )
    spec: GPateSpec

    def __init__(self, spec: GPateSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        _check_projections(spec, space)
        self.networks = networks_of(spec, space)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            One Gaussian release for all B P questions together, or for the whole average, of which
            one unit moves one teacher's part. It does not depend on what the votes are.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def gradient(
        self, state: NetworkState, samples: Samples, noise: NoiseSource
    ) -> tuple[NetworkState, Release]:
        """Train the teachers, release what they agree on, and take it back to pixels.

        Returns:
            The next state, and B rows: the directions in which images get less real.

        Privacy:
            Teacher k is a function of shard k, the images so far and public seeds, and projections
            are public; so one unit moves all counts by at most sqrt(2 B P), or the average by at
            most 2 C sqrt(B) / K. What follows is post-processing. Proof: g_pate.md.

        References:
            [long:21], algorithm 1.
        """
        spec, images = self.spec, self.networks.images(samples)
        projection_DP = self._projection(state.num_steps)
        following = state

        def directions() -> Iterator[tuple[Tensor, Tensor]]:
            nonlocal following
            following = self.networks.trained(state, spec, images)
            critics, start = following.ensemble.critics, 0
            for part in image_gradients(self.networks.shape, critics, *images):
                said = projected_directions(part, projection_DP)
                yield said, silent(state.shards, said, start)
                start += len(said)

        average = spec.aggregation == "mean"
        released = (self._average if average else self._votes)(directions, noise)
        agreed = post_process(released, lambda values: self._pixels(values, projection_DP.cpu()))
        return replace(following, num_steps=state.num_steps + 1), agreed

    def pack(self, state: NetworkState) -> dict[str, Tensor]:
        """Return the teachers and the number of steps; shards are read again."""
        return {**super().pack(state), "num_steps": torch.tensor([state.num_steps])}

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> NetworkState:
        """See `StatefulMechanism`."""
        return self.networks.unpack(tensors, batches, int(tensors["num_steps"]))

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
        size = (self.space.dimension, self.spec.num_projections)
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


def _check_projections(spec: GPateSpec, space: ImageSpace) -> None:
    """Refuse projections that would need absurd amounts of memory or time.

    Raises:
        MalformedRequest: If they would.

    Privacy:
        Reads the request and public facts only.
    """
    said = spec.num_teachers * spec.num_samples * spec.num_projections
    refuse_beyond(
        {
            "num_projections: too many for images of this size": (
                spec.num_projections * space.dimension,
                _MAX_PROJECTION,
            ),
            "num_teachers, num_samples, num_projections, num_bins: too much work for one step": (
                said * max(1, spec.num_bins),
                _MAX_STEP_NUMBERS,
            ),
        }
    )
