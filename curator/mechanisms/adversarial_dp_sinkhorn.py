"""Adversarial DP-Sinkhorn: one feature extractor a shard, all trained and asked at every step.

Statement and proof: adversarial_dp_sinkhorn.md. Nothing is ever exchanged between extractors, and
what an extractor is depends on its own shard, on the images sent so far and on public seeds.

Shape legend: K extractors, k of them at a time, N = n + n' samples, D pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences.device import compute_device
from curator.divergences.feature_extractors import (
    FeatureCost,
    Generated,
    OwnRecords,
    ascend,
    transport_gradients,
)
from curator.divergences.schedule import public_diameter, published
from curator.mechanisms.shard_networks import NetworkState, ShardMechanism, ShardNetworks
from curator.mechanisms.shard_sizes import (
    MAX_COORDINATES,
    MAX_STEP_WORK,
    ShardSpecification,
)
from curator.mechanisms.shards import Shards
from curator.mechanisms.specification import MAX_ROWS, refuse_beyond
from curator.mechanisms.state_size import LABEL_FLOATS, rows_bytes
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.sanitizer.averaged import MAX_CRITICS, fine_radius, release_critic_mean
from curator.sanitizer.post_process import post_process

_MAX_PAIRS: Final = 1 << 22  # of an image and a record, of one extractor
HEADS: Final = ("score", "classes")  # of a critic; extractors have none


class AdversarialDpSinkhornSpec(ShardSpecification):
    """Public parameters of one run.

    `num_extractors` K shards of `shard_capacity` rows have a feature extractor each. Every step has
    `num_samples` n rows that meet the records and `num_debias` n' <= n more for the self term; it
    updates every extractor `extractor_steps` times, against the generator, and releases the average
    of the K gradients in all rows, each clipped as a whole to `clip_norm` C. The ground cost is on
    [pixels, `label_scale` onehot, `feature_scale` features of length 1], `reg` in its units.
    `noise_multiplier` is over 2 C / K.
    """

    word = "extractor"
    without = HEADS

    num_extractors: Annotated[int, Field(ge=1, le=MAX_CRITICS)]
    num_debias: Annotated[int, Field(ge=0, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    reg: Annotated[float, Field(ge=1e-3, le=1e6)]
    label_scale: Annotated[float, Field(ge=0, le=1e3)]
    feature_scale: Annotated[float, Field(ge=0, le=1e3)]
    extractor: Literal["mlp", "conv"]
    extractor_width: Annotated[int, Field(ge=1, le=1024)]
    extractor_seed: Annotated[int, Field(ge=0, lt=2**63)]
    extractor_steps: Annotated[int, Field(ge=0, le=100)]
    extractor_learning_rate: Annotated[float, Field(gt=0, le=1)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_debias > self.num_samples:
            msg = "num_debias must not exceed num_samples"
            raise ValueError(msg)
        fine_radius(self.noise_multiplier)
        return self

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: n that meet records and n' that do not."""
        return self.num_samples + self.num_debias

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of extractors with Adam's moments."""
        _check_work(self, space)
        return super().kept_bytes(space)

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.rows_per_step, space.dimension + LABEL_FLOATS)


@final
class AdversarialDpSinkhorn(ShardMechanism):
    """Answers each step with the average over extractors of their clipped transport gradients.

    References:
        [cao:21], section 4.3, with the average of all extractors in place of one that is drawn.
    """

    name = "adversarial-dp-sinkhorn"
    specification = AdversarialDpSinkhornSpec
    durability = "replay"
    sensitivity = (
        "one of K extractors changes, and the whole gradient of each is clipped to C, so the "
        "average over extractors moves by at most 2 C / K"
    )
    spec: AdversarialDpSinkhornSpec

    def __init__(self, spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        _check_work(spec, space)
        self.networks = ShardNetworks(spec.networks, space)
        self._cost = feature_cost(spec, space)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a function of all units of which one unit moves one extractor's
            part. Nothing is sampled that the cost would rely on.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def gradient(
        self, state: NetworkState, samples: Samples, noise: NoiseSource
    ) -> tuple[NetworkState, Release]:
        """Train every extractor against the images, then release what all of them make of them.

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
        size = (spec.rows_per_step, self.space.dimension)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            data = self._own_records(state.shards), generated
            ensemble, rate = state.ensemble, spec.extractor_learning_rate
            for _ in range(spec.extractor_steps):
                ensemble = ascend(self.networks.shape, self._cost, rate, ensemble, data)
            following = NetworkState(shards=state.shards, ensemble=ensemble)
            start = 0
            for part in transport_gradients(
                self.networks.shape, self._cost, ensemble.critics, data
            ):
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

    def _own_records(self, shards: Shards) -> OwnRecords:
        """Return all records of each shard, padded.

        Privacy:
            Row k depends on shard k.
        """
        places_P = torch.arange(self.spec.shard_capacity)
        mask_KP = places_P < shards.counts_K.unsqueeze(1)
        pixels_KPD = shards.levels_KPD.to(torch.float32) * (2 / self.space.max_level) - 1
        return OwnRecords(
            pixels_KMD=pixels_KPD,
            labels_KM=shards.labels_KP,
            mask_KM=mask_KP.to(shards.levels_KPD.device),
        )


def _check_work(spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> None:
    """Refuse sizes that would need absurd amounts of memory or time.

    Raises:
        MalformedRequest: If they would.

    Privacy:
        Reads the request and public facts only.
    """
    shape = spec.networks.shape(space)
    num_features = shape.sizes["score"][1]
    pairs = spec.num_samples * max(spec.num_samples, spec.shard_capacity)
    rows = spec.rows_per_step + spec.shard_capacity
    work = rows * shape.multiplications + 2 * pairs * (space.dimension + num_features)
    refuse_beyond(
        {
            "num_samples: too many images of this size": (
                spec.rows_per_step * space.dimension,
                MAX_COORDINATES,
            ),
            "num_samples, shard_capacity: too many pairs": (pairs, _MAX_PAIRS),
            "num_extractors, extractor_steps: too much work for one step": (
                spec.num_extractors * (spec.extractor_steps + 1) * work,
                MAX_STEP_WORK,
            ),
        }
    )


def feature_cost(spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> FeatureCost:
    """Return the ground cost with the published schedule of temperatures.

    Privacy:
        Every number comes from the specification and the image space.
    """
    plain = public_diameter(space, spec.label_scale)
    diameter = math.hypot(plain, 2 * spec.feature_scale)  # features have length 1
    return FeatureCost(
        label_scale=spec.label_scale,
        feature_scale=spec.feature_scale,
        temperatures=published(diameter, spec.reg).temperatures,
    )
