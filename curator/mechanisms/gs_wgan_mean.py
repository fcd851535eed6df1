"""GS-WGAN with averaged critics: one critic a shard, all of them trained and asked at every step.

Statement and proof: gs_wgan_mean.md. Nothing is ever exchanged between critics, and what a critic
is depends on its own shard, on the images sent so far and on public seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

import torch
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.critic_training import image_gradients
from curator.divergences.placement import placed_update
from curator.divergences.progress import told
from curator.mechanisms.critic_state import CriticData, CriticState
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean


@final
class GsWganMean:
    """Answers each step with the average over critics of their clipped image gradients.

    References:
        [chen:20], with the average of all critics in place of one that is drawn.
    """

    durability: Final = "replay"

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self.data = CriticData(spec, space)

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
            Nothing is released before the first step, and critics are trained within steps.
        """
        return NoEvent()

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a function of all units of which one unit moves one critic's part.
            Nothing is sampled that the cost would rely on.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not B rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        self.data.check_samples(samples)

    def start(self, batches: Iterable[Private[RecordBatch]]) -> CriticState:
        """Return the shards with critics that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return self.data.start(batches)

    def gradient(
        self, state: CriticState, samples: Samples, noise: NoiseSource
    ) -> tuple[CriticState, Release]:
        """Train every critic on the images, then release what critics together make of them.

        Args:
            state: Of `start`, or of the step before.
            samples: B rows that passed `check_samples`.
            noise: Secret randomness.

        Returns:
            The next state, and B noised rows: the average of the gradients of minus the scores.

        Privacy:
            One unit moves the average by at most 2 C sqrt(B) / K: critic k is a function of shard
            k, the images so far and public seeds. Proof: gs_wgan_mean.md.

        References:
            [chen:20], algorithm 1.
        """
        spec = self.spec
        images = self.data.images(samples)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            following = self._trained(state, images)
            taken_K11 = (state.shards.counts_K > 0).to(torch.float32).reshape(-1, 1, 1)
            critics = following.ensemble.critics
            start = 0
            for part in image_gradients(self.data.shape, critics, *images):
                taken = taken_K11[start : start + len(part)].to(part.device)
                yield part * taken  # the critic of an empty shard says nothing
                start += len(part)

        release = release_critic_mean(
            compute,
            num_critics=spec.num_critics,
            shape=(spec.num_samples, self.data.space.dimension),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, release

    def pack(self, state: CriticState) -> dict[str, Tensor]:
        """Return the critics with Adam's moments; shards are read again.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.
        """
        return self.data.pack(state)

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> CriticState:
        """Return the state that was packed, bit for bit.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.
        """
        return self.data.unpack(tensors, batches)

    def _trained(self, state: CriticState, images: tuple[Tensor, Tensor]) -> CriticState:
        """Return the state after the updates of one step.

        Privacy:
            Only ever called inside the sanitizer's guard.
        """
        done, spec = state.ensemble.num_updates, self.spec
        first = spec.warm_start_steps if done == 0 else 0
        turns = range(done, done + first + spec.critic_steps)
        every = slice(0, spec.num_critics)
        batches = (
            self.data.minibatch(state.shards, f"update|{turn}", images, every)
            for turn in (told(turns) if first else turns)
        )
        ensemble = placed_update(self.data.shape, spec.optimizer, state.ensemble, batches)
        return CriticState(shards=state.shards, ensemble=ensemble)
