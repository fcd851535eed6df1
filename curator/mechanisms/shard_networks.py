"""One network a shard: how networks begin, learn and are kept, and how large they may be.

Critics, teachers and feature extractors are such networks. Nothing is ever exchanged between them:
what a network is depends on its own shard, on the images sent so far and on public seeds.

Shape legend: K networks, k of them at a time, R records of a minibatch, N images, D pixels,
L classes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import (
    CriticOptimizer,
    Minibatch,
    update,
)
from curator.divergences.critics import CriticShape, initial_critics, public_uniforms
from curator.divergences.device import compute_device
from curator.divergences.packed import pack_ensemble, unpack_ensemble
from curator.divergences.placement import Update
from curator.divergences.progress import told
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.shards import Shards, gather_shards
from curator.mechanisms.specification import refuse_beyond
from curator.mechanisms.state_size import networks_bytes, shards_bytes
from curator.privacy.private import Private, Sealed
from curator.privacy.records import ImageSpace, RecordBatch, Samples

MAX_COORDINATES: Final = 1 << 24  # of one answer
_MAX_SHARD_BYTES: Final = 1 << 30
_MAX_SHOWN_VALUES: Final = 1 << 29  # pixels that one update shows to all networks, as floats
_MAX_PARAMETERS: Final = 1 << 27  # of all; with moments and slopes four times as many floats
MAX_STEP_WORK: Final = 1 << 41  # multiplications of scores: minutes on a few cores
_MAX_START_WORK: Final = 1 << 44


def network_shape(kind: Literal["mlp", "conv"], width: int, space: ImageSpace) -> CriticShape:
    """Return the sizes of a network for the images of a data set."""
    return CriticShape(
        kind=kind,
        width=width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSizes:
    """What a specification says of its networks; `word` is what its fields call one of them.

    `without` names parameters that these networks do not have.
    """

    word: str
    count: int
    capacity: int
    kind: Literal["mlp", "conv"]
    width: int
    seed: int
    without: Collection[str] = ()

    def shape(self, space: ImageSpace) -> CriticShape:
        """Return the sizes of each network.

        Raises:
            MalformedRequest: If all together would need absurd amounts of memory.

        Privacy:
            Reads the request and public facts only.
        """
        word, shape = self.word, network_shape(self.kind, self.width, space)
        refuse_beyond(
            {
                f"num_{word}s, shard_capacity: too many images of this size": (
                    self.count * self.capacity * space.dimension,
                    _MAX_SHARD_BYTES,
                ),
                f"num_{word}s, {word}_width: too many parameters together": (
                    self.count * shape.num_parameters,
                    _MAX_PARAMETERS,
                ),
            }
        )
        return shape

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of networks with Adam's moments."""
        networks = networks_bytes(self.shape(space), self.count, without=self.without)
        return shards_bytes(self.count, self.capacity, space) + networks


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSizes:
    """How much networks are shown: `batch` records of a shard an update, and `num_samples` images.

    A step makes `steps` updates; the first makes `warm_start_steps` more.
    """

    batch: int
    num_samples: int
    steps: int
    warm_start_steps: int

    def check(self, sizes: NetworkSizes, space: ImageSpace) -> None:
        """Refuse sizes that would need absurd amounts of memory or time.

        Raises:
            MalformedRequest: If they would.

        Privacy:
            Reads the request and public facts only.
        """
        word, shape = sizes.word, sizes.shape(space)
        work = sizes.count * (2 * self.batch + self.num_samples) * shape.multiplications
        refuse_beyond(
            {
                "num_samples: too many images of this size": (
                    self.num_samples * space.dimension,
                    MAX_COORDINATES,
                ),
                f"num_{word}s, {word}_batch: too many images of this size": (
                    sizes.count * self.batch * space.dimension,
                    _MAX_SHOWN_VALUES,
                ),
                f"num_{word}s, {word}_steps: too much work for one step": (
                    self.steps * work,
                    MAX_STEP_WORK,
                ),
                f"num_{word}s, warm_start_steps: too much work for the first step": (
                    self.warm_start_steps * work,
                    _MAX_START_WORK,
                ),
            }
        )


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
        training: TrainingSizes,
        optimizer: CriticOptimizer,
        images: tuple[Tensor, Tensor],
        by: Update = update,
    ) -> NetworkState:
        """Return the state after all networks' updates of one step.

        Privacy:
            Network k is a function of shard k, the images so far and public seeds. Called inside
            the sanitizer's guard only.
        """
        done = state.ensemble.num_updates
        first = training.warm_start_steps if done == 0 else 0
        turns = range(done, done + first + training.steps)
        lessons = (
            self.minibatch(state, f"update|{turn}", training.batch, images)
            for turn in (told(turns) if first else turns)
        )
        ensemble = by(self.shape, optimizer, state.ensemble, lessons)
        return NetworkState(shards=state.shards, ensemble=ensemble, num_steps=state.num_steps)

    def _shards(self, batches: Iterable[Private[RecordBatch]]) -> Shards:
        sizes = self._sizes
        shards = gather_shards(batches, sizes.count, sizes.capacity, self.space)
        return shards.on(compute_device())


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
