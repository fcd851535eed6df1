"""GS-WGAN with averaged critics: one critic a shard, all of them trained and asked at every step.

Statement and proof: gs_wgan_mean.md. Nothing is ever exchanged between critics, and what a critic
is depends on its own shard, on the images sent so far and on public seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, final

import torch
from pydantic import Field
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences.critic_training import image_gradients
from curator.divergences.placement import placed_update
from curator.mechanisms.shard_networks import NetworkState, ShardMechanism, networks_of
from curator.mechanisms.shard_sizes import TrainedShardSpecification
from curator.mechanisms.state_size import LABEL_FLOATS, rows_bytes
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.sanitizer.averaged import MAX_CRITICS, release_critic_mean


class GsWganMeanSpec(TrainedShardSpecification):
    """Public parameters of one run.

    `num_critics` K shards of `shard_capacity` rows have a critic each; every step has `num_samples`
    B generated rows, updates every critic `critic_steps` times with `critic_batch` records of its
    shard, and releases the average of the image gradients, each clipped to `clip_norm`. The first
    step makes `warm_start_steps` more updates. `noise_multiplier` is over 2 C sqrt(B) / K.
    """

    word = "critic"

    num_critics: Annotated[int, Field(ge=1, le=MAX_CRITICS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    critic: Literal["mlp", "conv"]
    critic_width: Annotated[int, Field(ge=1, le=1024)]
    critic_seed: Annotated[int, Field(ge=0, lt=2**63)]
    critic_batch: Annotated[int, Field(ge=1, le=4096)]
    critic_steps: Annotated[int, Field(ge=1, le=100)]
    critic_learning_rate: Annotated[float, Field(gt=0, le=1)]

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.num_samples, space.dimension + LABEL_FLOATS)


@final
class GsWganMean(ShardMechanism):
    """Answers each step with the average over critics of their clipped image gradients.

    References:
        [chen:20], with the average of all critics in place of one that is drawn.
    """

    name = "gs-wgan-mean"
    specification = GsWganMeanSpec
    durability = "replay"
    sensitivity = (
        "one of K critics changes, and each of B images is clipped to C, so the average over "
        "critics moves by at most 2 C sqrt(B) / K"
    )
    spec: GsWganMeanSpec

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.networks = networks_of(spec, space)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a function of all units of which one unit moves one critic's part.
            Nothing is sampled that the cost would rely on.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def gradient(
        self, state: NetworkState, samples: Samples, noise: NoiseSource
    ) -> tuple[NetworkState, Release]:
        """Train every critic on the images, then release what critics together make of them.

        Returns:
            The next state, and B noised rows: the average of the gradients of minus the scores.

        Privacy:
            One unit moves the average by at most 2 C sqrt(B) / K: critic k is a function of shard
            k, the images so far and public seeds. Proof: gs_wgan_mean.md.

        References:
            [chen:20], algorithm 1.
        """
        spec = self.spec
        images = self.networks.images(samples)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            following = self.networks.trained(state, spec, images, by=placed_update)
            taken_K11 = (state.shards.counts_K > 0).to(torch.float32).reshape(-1, 1, 1)
            critics = following.ensemble.critics
            start = 0
            for part in image_gradients(self.networks.shape, critics, *images):
                taken = taken_K11[start : start + len(part)].to(part.device)
                yield part * taken  # the critic of an empty shard says nothing
                start += len(part)

        release = release_critic_mean(
            compute,
            num_critics=spec.num_critics,
            shape=(spec.num_samples, self.space.dimension),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, release
