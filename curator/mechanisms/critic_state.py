"""What critics of shards remember, and how it is made of a data set and of public numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, final

import torch
from torch import Tensor

from curator.divergences.critic_training import Ensemble, Minibatch
from curator.divergences.critics import initial_critics, public_uniforms
from curator.divergences.device import compute_device
from curator.divergences.packed import pack_ensemble, unpack_ensemble
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec, critic_shape
from curator.mechanisms.shard_minibatch import onehot, shard_minibatch
from curator.mechanisms.shards import Shards, gather_shards
from curator.mechanisms.specification import check_rows
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CriticState:
    """What a run is between two steps: the shards, and critics that remember them.

    `number` is that of the step that comes, where a mechanism is told.
    """

    shards: Shards
    ensemble: Ensemble
    number: int = 0

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
class CriticData:
    """The parameters of a run with critics of shards, and what is drawn of them."""

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self.space = space
        self.shape = critic_shape(spec, space)

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not B rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        num_rows = self.spec.num_samples
        check_rows(samples, self.space, range(num_rows, num_rows + 1))

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
        shards = self._shards(batches)
        critics = initial_critics(self.shape, spec.num_critics, spec.critic_seed)
        critics = {name: value.to(compute_device()) for name, value in critics.items()}
        return CriticState(shards=shards, ensemble=Ensemble.start(critics))

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> CriticState:
        """Return the state that was packed.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.

        Returns:
            The same state, bit for bit.

        Privacy:
            As for `start`: critic k is of the shard k that is read again.
        """
        return CriticState(shards=self._shards(batches), ensemble=unpack_ensemble(tensors))

    def pack(self, state: CriticState) -> dict[str, Tensor]:
        """Return the critics with Adam's moments; shards are read again.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.

        Privacy:
            Private values, for the curator's own disk.
        """
        return pack_ensemble(state.ensemble)

    def images(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return the samples and their labels as critics compare them.

        Args:
            samples: Rows that passed `check_samples`.

        Returns:
            Images, and labels as rows of an identity matrix, on the curator's device.
        """
        device = compute_device()
        images_ND = samples.images_ND.to(device, torch.float32)
        return images_ND, onehot(samples.labels_N.to(device), self.space)

    def minibatch(
        self, shards: Shards, stream: str, images: tuple[Tensor, Tensor], some: slice
    ) -> Minibatch:
        """Return what one update shows to some critics.

        Args:
            shards: All of them.
            stream: Name of the update, public.
            images: Of `images`.
            some: Which critics, public.

        Returns:
            Rows of the shards of these critics, and all images.

        Privacy:
            Row k depends on shard k and public numbers. An empty shard shows padding.
        """
        size = (2, self.spec.num_critics, self.spec.critic_batch)
        drawn = public_uniforms(self.spec.critic_seed, stream, math.prod(size))
        return shard_minibatch(shards, drawn.reshape(size), images, self.space, some)

    def _shards(self, batches: Iterable[Private[RecordBatch]]) -> Shards:
        spec = self.spec
        shards = gather_shards(batches, spec.num_critics, spec.shard_capacity, self.space)
        return shards.on(compute_device())
