"""One network a shard: how networks begin, learn and are kept.

Critics, teachers and feature extractors are such networks. Nothing is ever exchanged between them:
what a network is depends on its own shard, on the images sent so far and on public seeds.

Shape legend: K networks, k of them at a time, R records of a minibatch, N images, D pixels,
L classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import (
    Minibatch,
    pack_ensemble,
    unpack_ensemble,
    update,
)
from curator.divergences.critics import initial_critics, public_uniforms
from curator.divergences.device import compute_device
from curator.divergences.placement import Update
from curator.divergences.progress import told
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.shard_sizes import NetworkSizes, TrainedShardSpecification
from curator.mechanisms.shards import Shards, gather_shards
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private, Sealed


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class NetworkState(Sealed):
    """What a run is between two steps: the shards, and networks that remember them.

    `num_steps` is how many steps there were, where a method counts them.
    """

    shards: Shards
    ensemble: Ensemble
    num_steps: int = 0


@final
class ShardNetworks:
    """The networks of a run."""

    def __init__(self, sizes: NetworkSizes, space: ImageSpace) -> None:
        """Keep the public parameters.

        Raises:
            MalformedRequest: If the networks would need absurd amounts of memory.
        """
        self.space = space
        self.shape = sizes.shape(space)
        self._sizes = sizes

    def start(self, batches: Iterable[Private[RecordBatch]]) -> NetworkState:
        """Return the shards with networks that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        first = initial_critics(self.shape, self._sizes.count, self._sizes.seed)
        kept = {n: v.to(compute_device()) for n, v in first.items() if n not in self._sizes.without}
        return NetworkState(shards=self._shards(batches), ensemble=Ensemble.start(kept))

    def pack(self, state: NetworkState) -> dict[str, Tensor]:
        """Return the networks with Adam's moments; shards are read again."""
        return pack_ensemble(state.ensemble)

    def unpack(
        self,
        tensors: Mapping[str, Tensor],
        batches: Iterable[Private[RecordBatch]],
        num_steps: int = 0,
    ) -> NetworkState:
        """Return the state that was packed, beside the shards that are read again.

        Privacy:
            As for `start`: network k is of the shard k that is read again.
        """
        ensemble = unpack_ensemble(tensors)
        return NetworkState(shards=self._shards(batches), ensemble=ensemble, num_steps=num_steps)

    def images(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return images and one-hot labels as networks compare them, on the curator's device."""
        device = compute_device()
        images_ND = samples.images_ND.to(device, torch.float32)
        return images_ND, onehot(samples.labels_N.to(device), self.space)

    def minibatch(
        self,
        state: NetworkState,
        stream: str,
        batch: int,
        images: tuple[Tensor, Tensor],
        some: slice = slice(None),
    ) -> Minibatch:
        """Return what one update shows to some networks: to each its own, to all the same images.

        Args:
            state: With all shards.
            stream: Public name of the update, from which what is drawn follows.
            batch: Records that each is shown.
            images: Of `images`.
            some: Which networks, public.

        Privacy:
            Row k depends on shard k and public numbers. An empty shard shows padding.
        """
        shards, size = state.shards, (2, self._sizes.count, batch)
        drawn_2KR = public_uniforms(self._sizes.seed, stream, math.prod(size)).reshape(size)
        device = shards.levels_KPD.device
        picks_kR, mixing_kR = drawn_2KR[:, some]
        most_k1 = shards.counts_K[some].clamp_min(1).unsqueeze(1)
        places_kR = torch.minimum((picks_kR * most_k1).to(torch.int64), most_k1 - 1).to(device)
        rows_k1 = torch.arange(self._sizes.count, device=device)[some].unsqueeze(1)
        levels_kRD = shards.levels_KPD[rows_k1, places_kR].to(torch.float32)
        return Minibatch(
            records_KRD=levels_kRD * (2 / self.space.max_level) - 1,
            record_labels_KRL=onehot(shards.labels_KP[rows_k1, places_kR], self.space),
            images_ND=images[0],
            image_labels_NL=images[1],
            mixing_KR=mixing_kR.to(device, torch.float32),
        )

    def trained(
        self,
        state: NetworkState,
        spec: TrainedShardSpecification,
        images: tuple[Tensor, Tensor],
        by: Update = update,
    ) -> NetworkState:
        """Return the state after all networks' updates of one step, computed by `by`.

        Privacy:
            Network k is a function of shard k, the images so far and public seeds. Called inside
            the sanitizer's guard only.
        """
        training, done = spec.training, state.ensemble.num_updates
        first = training.warm_start_steps if done == 0 else 0
        turns = range(done, done + first + training.steps)
        lessons = (
            self.minibatch(state, f"update|{turn}", training.batch, images)
            for turn in (told(turns) if first else turns)
        )
        ensemble = by(self.shape, spec.optimizer, state.ensemble, lessons)
        return NetworkState(shards=state.shards, ensemble=ensemble, num_steps=state.num_steps)

    def _shards(self, batches: Iterable[Private[RecordBatch]]) -> Shards:
        sizes = self._sizes
        shards = gather_shards(batches, sizes.count, sizes.capacity, self.space)
        return shards.on(compute_device())


def networks_of(spec: TrainedShardSpecification, space: ImageSpace) -> ShardNetworks:
    """Return the networks of a run.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    spec.training.check(spec.networks, space)
    return ShardNetworks(spec.networks, space)


class ShardMechanism(StatefulMechanism):
    """Keeps nothing but networks of shards."""

    networks: ShardNetworks

    def start(self, batches: Iterable[Private[RecordBatch]]) -> NetworkState:
        """See `StatefulMechanism`.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return self.networks.start(batches)

    def pack(self, state: NetworkState) -> dict[str, Tensor]:
        """See `StatefulMechanism`."""
        return self.networks.pack(state)

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> NetworkState:
        """See `StatefulMechanism`."""
        return self.networks.unpack(tensors, batches)


def onehot(labels: Tensor, space: ImageSpace) -> Tensor:
    """Return labels of any shape as float32 rows of an identity matrix."""
    return one_hot(labels, space.num_classes).to(torch.float32)


def silent(shards: Shards, part: Tensor, start: int) -> Tensor:
    """Return which of some networks have an empty shard and say nothing, as a column.

    Args:
        shards: Of all networks.
        part: What some of them say, with a first axis of k.
        start: The first of them.

    Returns:
        Booleans (k, 1).

    Privacy:
        Row k depends on the size of shard k.
    """
    empty_K = shards.counts_K == 0
    return empty_K[start : start + len(part)].unsqueeze(1).to(part.device)
