"""Disjoint shards of the units: where a unit goes depends on its own content and nothing else.

A unit's shard is a keyed hash of all its rows, so adding or removing a unit leaves every other one
where it is, in whatever order they are stored, for as long as the data set lives. The key is public
and constant: no proof here needs it to be secret, and every replica of a curator agrees.

Shape legend: K shards, P places of a shard, M rows of a batch, D pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, final

import torch
from torch import Tensor

from curator.privacy.batches import ImageSpace, RecordBatch, level_dtype
from curator.privacy.private import Private, SealedError

_KEY = b"weir shards v1"
_DIGEST_BYTES = 16


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Shards:
    """Private rows in shards, padded to a public capacity; never leaves a mechanism's state.

    `levels_KPD` is of the type of a batch's, `labels_KP` int64, and the first `counts_K` places of
    a shard are taken.
    """

    levels_KPD: Tensor
    labels_KP: Tensor
    counts_K: Tensor

    def on(self, device: torch.device) -> Shards:
        """Return the shards with their rows on a device; the counts stay on the processor."""
        return Shards(
            levels_KPD=self.levels_KPD.to(device),
            labels_KP=self.labels_KP.to(device),
            counts_K=self.counts_K,
        )

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "Shards(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: private values are not serialised by accident.

        Raises:
            SealedError: Always.
        """
        raise SealedError


def gather_shards(
    batches: Iterable[Private[RecordBatch]], num_shards: int, capacity: int, space: ImageSpace
) -> Shards:
    """Put every record into the shard of its unit.

    Args:
        batches: Every record once, in batches of one padded shape; all of a unit in one batch.
        num_shards: Public K.
        capacity: Public P; of the rows of a shard the first in stored order are kept.
        space: Public image space; a record of an unknown class is left out.

    Privacy:
        Adding or removing one unit changes one shard, arbitrarily, and no bit of any other: where a
        unit goes is a function of the unit, rows of a shard keep their stored order, and places are
        counted for each shard alone. As much is computed and copied whatever the records are; a row
        without a place goes to one more shard, which is thrown away.
    """
    size = (num_shards + 1, capacity + 1)  # the last shard and the last place are thrown away
    levels = torch.zeros((*size, space.dimension), dtype=level_dtype(space.max_level))
    labels = torch.zeros(size, dtype=torch.int64)
    counts = torch.zeros(num_shards + 1, dtype=torch.int64)
    for sealed in batches:
        batch = sealed.unseal()
        known = batch.mask_M & (batch.units_M >= 0)
        known &= (batch.labels_M >= 0) & (batch.labels_M < space.num_classes)
        shards_M = torch.where(known, _shards_of_units(batch, num_shards), num_shards)
        places_M = counts[shards_M] + _ranks(shards_M)
        counts += torch.bincount(shards_M, minlength=num_shards + 1)
        places_M = places_M.clamp(max=capacity)
        levels[shards_M, places_M] = batch.levels_MD
        labels[shards_M, places_M] = batch.labels_M
    kept = slice(0, num_shards), slice(0, capacity)
    return Shards(
        levels_KPD=levels[kept].contiguous(),
        labels_KP=labels[kept].contiguous(),
        counts_K=counts[:num_shards].clamp(max=capacity),
    )


def _shards_of_units(batch: RecordBatch, num_shards: int) -> Tensor:
    """Return the shard of each row: a keyed hash of the rows of its unit, in stored order.

    A record is hashed to one digest, and the digests of a unit to another. Padding is a unit a row,
    and what many rows of one unit save is done in vain, so that time does not count units.
    """
    levels, labels = batch.levels_MD.numpy(), batch.labels_M.numpy().astype("<i8")
    levels = levels.astype(levels.dtype.newbyteorder("<"), copy=False)
    apart = -1 - torch.arange(len(batch.units_M))
    units = torch.where(batch.units_M < 0, apart, batch.units_M).tolist()
    together: dict[int, hashlib.blake2b] = {}
    for row, unit in enumerate(units):
        one = _hash()
        one.update(labels[row].tobytes())
        one.update(levels[row].tobytes())
        together.setdefault(unit, _hash()).update(one.digest())
    vain = {-1 - len(units) - spare: _hash() for spare in range(len(units) - len(together))}
    shards = {
        unit: int.from_bytes(digest.digest(), "little") % num_shards
        for unit, digest in (together | vain).items()
    }
    return torch.tensor([shards[unit] for unit in units], dtype=torch.int64)


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(key=_KEY, digest_size=_DIGEST_BYTES)


def _ranks(keys_M: Tensor) -> Tensor:
    """Return how many earlier rows have the same key."""
    order = torch.argsort(keys_M, stable=True)
    ordered = keys_M[order]
    ranks = torch.empty_like(keys_M)
    ranks[order] = torch.arange(len(keys_M)) - torch.searchsorted(ordered, ordered)
    return ranks
