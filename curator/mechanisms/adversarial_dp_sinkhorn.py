"""Adversarial DP-Sinkhorn: one feature extractor a shard, all trained and asked at every step.

Statement and proof: adversarial_dp_sinkhorn.md. Nothing is ever exchanged between extractors, and
what an extractor is depends on its own shard, on the images sent so far and on public seeds.

Shape legend: K extractors, k of them at a time, N = n + n' samples, D pixels.
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
from curator.divergences.critic_training import Ensemble
from curator.divergences.critics import initial_critics
from curator.divergences.device import compute_device
from curator.divergences.feature_extractors import (
    Generated,
    OwnRecords,
    ascend,
    transport_gradients,
)
from curator.divergences.packed import pack_ensemble, unpack_ensemble
from curator.mechanisms.adversarial_dp_sinkhorn_spec import (
    HEADS,
    AdversarialDpSinkhornSpec,
    extractor_shape,
    feature_cost,
)
from curator.mechanisms.shards import Shards, gather_shards
from curator.mechanisms.specification import check_rows
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean
from curator.sanitizer.post_process import post_process


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ExtractorState:
    """What a run is between two steps: the shards, and extractors that remember them."""

    shards: Shards
    ensemble: Ensemble

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "ExtractorState(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: extractors hold private records, as weights.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class AdversarialDpSinkhorn:
    """Answers each step with the average over extractors of their clipped transport gradients.

    References:
        [cao:21], section 4.3, with the average of all extractors in place of one that is drawn.
    """

    durability: Final = "replay"

    def __init__(self, spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self._space = space
        self._shape = extractor_shape(spec, space)
        self._cost = feature_cost(spec, space)

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: n that meet records and n' that do not."""
        return self.spec.num_rows

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing is released before the first step.
        """
        return NoEvent()

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a function of all units of which one unit moves one extractor's
            part. Nothing is sampled that the cost would rely on.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not n + n' rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        num_rows = self.spec.num_rows
        check_rows(samples, self._space, range(num_rows, num_rows + 1))

    def start(self, batches: Iterable[Private[RecordBatch]]) -> ExtractorState:
        """Return the shards with extractors that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        spec = self.spec
        first = initial_critics(self._shape, spec.num_extractors, spec.extractor_seed)
        extractors = {n: v.to(compute_device()) for n, v in first.items() if n not in HEADS}
        return ExtractorState(shards=self._shards(batches), ensemble=Ensemble.start(extractors))

    def gradient(
        self, state: ExtractorState, samples: Samples, noise: NoiseSource
    ) -> tuple[ExtractorState, Release]:
        """Train every extractor against the images, then release what all of them make of them.

        Args:
            state: Of `start`, or of the step before.
            samples: n + n' rows that passed `check_samples`.
            noise: Secret randomness.

        Returns:
            The next state, and n + n' noised rows: the average gradient of 2 W(X[0:n], Y_k) -
            W(X[0:n], X[n':n'+n]), both under the cost of extractor k.

        Privacy:
            One unit moves the average by at most 2 C / K: extractor k is a function of shard k, the
            images so far and public seeds. The rows of the self term depend on extractors too, and
            are noised with the others. Proof: adversarial_dp_sinkhorn.md.

        References:
            [cao:21], section 4.3.
        """
        spec = self.spec
        generated = Generated(
            images_ND=samples.images_ND.to(compute_device(), torch.float32),
            labels_N=samples.labels_N.to(compute_device()),
            num_samples=spec.num_samples,
        )
        size = (spec.num_rows, self._space.dimension)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            data = self._own_records(state.shards), generated
            ensemble, rate = state.ensemble, spec.extractor_learning_rate
            for _ in range(spec.extractor_steps):
                ensemble = ascend(self._shape, self._cost, rate, ensemble, data)
            following = ExtractorState(shards=state.shards, ensemble=ensemble)
            start = 0
            for part in transport_gradients(self._shape, self._cost, ensemble.critics, data):
                taken = data[0].mask_KM[start : start + len(part)].any(dim=1)
                flat = part.reshape(len(part), 1, -1)  # one vector, clipped as a whole
                yield torch.where(taken.reshape(-1, 1, 1), flat, 0.0)
                start += len(part)

        released = release_critic_mean(
            compute,
            num_critics=spec.num_extractors,
            shape=(1, size[0] * size[1]),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, post_process(released, lambda values: values.reshape(size))

    def pack(self, state: ExtractorState) -> dict[str, Tensor]:
        """Return the extractors with Adam's moments; shards are read again.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.

        Privacy:
            Private values, for the curator's own disk.
        """
        return pack_ensemble(state.ensemble)

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> ExtractorState:
        """Return the state that was packed.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.

        Returns:
            The same state, bit for bit.

        Privacy:
            As for `start`: extractor k is of the shard k that is read again.
        """
        return ExtractorState(shards=self._shards(batches), ensemble=unpack_ensemble(tensors))

    def _shards(self, batches: Iterable[Private[RecordBatch]]) -> Shards:
        spec = self.spec
        shards = gather_shards(batches, spec.num_extractors, spec.shard_capacity, self._space)
        return shards.on(compute_device())

    def _own_records(self, shards: Shards) -> OwnRecords:
        """Return all records of each shard, padded.

        Privacy:
            Row k depends on shard k.
        """
        places_P = torch.arange(self.spec.shard_capacity)
        mask_KP = places_P < shards.counts_K.unsqueeze(1)
        pixels_KPD = shards.levels_KPD.to(torch.float32) * (2 / self._space.max_level) - 1
        return OwnRecords(
            pixels_KMD=pixels_KPD,
            labels_KM=shards.labels_KP,
            mask_KM=mask_KP.to(shards.levels_KPD.device),
        )
