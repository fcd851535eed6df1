"""GS-WGAN with averaged critics: one critic a shard, all of them trained and asked at every step.

Statement and proof: gs_wgan_mean.md. Nothing is ever exchanged between critics, and what a critic
is depends on its own shard, on the images sent so far and on public seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.divergences.critic_training import Ensemble, Minibatch, chunks, image_gradients, update
from curator.divergences.critics import initial_critics, public_uniforms
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec, critic_shape
from curator.mechanisms.shards import Shards, gather_shards
from curator.mechanisms.specification import check_rows
from curator.privacy.event import GaussianEvent, NoEvent, PrivacyEvent
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CriticState:
    """What a run is between two steps: the shards, and critics that remember them."""

    shards: Shards
    ensemble: Ensemble

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "CriticState(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: critics hold private records, as weights.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class GsWganMean:
    """Answers each step with the average over critics of their clipped image gradients.

    References:
        [chen:20], with the average of all critics in place of one that is drawn.
    """

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self._space = space
        self._shape = critic_shape(spec, space)

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
        num_rows = self.spec.num_samples
        check_rows(samples, self._space, range(num_rows, num_rows + 1))

    def start(self, batches: Iterable[Private[RecordBatch]]) -> CriticState:
        """Return the shards with critics that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        spec = self.spec
        shards = gather_shards(batches, spec.num_critics, spec.shard_capacity, self._space)
        critics = initial_critics(self._shape, spec.num_critics, spec.critic_seed)
        return CriticState(shards=shards, ensemble=Ensemble.start(critics))

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
        onehot_NL = self._onehot(samples.labels_N)
        images_ND = samples.images_ND.to(torch.float32)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            following = self._trained(state, images_ND, onehot_NL)
            taken_K11 = (state.shards.counts_K > 0).to(torch.float32).reshape(-1, 1, 1)
            critics = following.ensemble.critics
            parts = image_gradients(self._shape, critics, images_ND, onehot_NL)
            for some, part in zip(chunks(spec.num_critics), parts, strict=True):
                yield part * taken_K11[some]  # the critic of an empty shard says nothing

        release = release_critic_mean(
            compute,
            num_critics=spec.num_critics,
            shape=(spec.num_samples, self._space.dimension),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, release

    def _trained(self, state: CriticState, images_ND: Tensor, onehot_NL: Tensor) -> CriticState:
        """Return the state after the updates of one step.

        Privacy:
            Only ever called inside the sanitizer's guard.
        """
        ensemble = state.ensemble
        first = self.spec.warm_start_steps if ensemble.num_updates == 0 else 0
        for _ in range(first + self.spec.critic_steps):
            batch = self._minibatch(state.shards, ensemble.num_updates, images_ND, onehot_NL)
            ensemble = update(self._shape, self.spec.optimizer, ensemble, batch)
        return CriticState(shards=state.shards, ensemble=ensemble)

    def _minibatch(
        self, shards: Shards, turn: int, images_ND: Tensor, onehot_NL: Tensor
    ) -> Minibatch:
        """Return the records that update number `turn` shows to each critic.

        Privacy:
            Row k depends on shard k and public numbers. An empty shard shows padding.
        """
        spec = self.spec
        size = (spec.num_critics, spec.critic_batch)
        drawn = public_uniforms(spec.critic_seed, f"update|{turn}", 2 * size[0] * size[1])
        picks_KR, mixing_KR = drawn.reshape(2, *size)
        most_K1 = shards.counts_K.clamp_min(1).unsqueeze(1)
        places_KR = torch.minimum((picks_KR * most_K1).to(torch.int64), most_K1 - 1)
        rows_K1 = torch.arange(spec.num_critics).unsqueeze(1)
        levels_KRD = shards.levels_KPD[rows_K1, places_KR].to(torch.float32)
        return Minibatch(
            records_KRD=levels_KRD * (2 / self._space.max_level) - 1,
            record_labels_KRL=self._onehot(shards.labels_KP[rows_K1, places_KR]),
            images_ND=images_ND,
            image_labels_NL=onehot_NL,
            mixing_KR=mixing_KR.to(torch.float32),
        )

    def _onehot(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self._space.num_classes).to(torch.float32)
