"""Draw private batches from the secure stream; what is sampled never leaves a `Private` box.

Every record is included independently with exactly the dyadic probability that the accountant
charges: a uniform 64-bit word is compared with the rate's numerator. Fixed-size sampling would be a
second class here, for a replace-one ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import numpy as np
import torch
from torch import Tensor

from curator.data.images import LabelledImages
from curator.privacy.event import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import RecordBatch

_WORD = 1 << 64


@final
class PrivateRecords:
    """The private records of one data set; hands out nothing but sealed batches."""

    def __init__(self, images: LabelledImages) -> None:
        """Take the stored images; they stay memory-mapped."""
        self._levels = images.levels.reshape(len(images.levels), math.prod(images.levels.shape[1:]))
        self._labels = images.labels

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "PrivateRecords(<sealed>)"

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        """Return a fresh Poisson sample, padded to the capacity.

        Args:
            rate: Probability of each record.
            capacity: Public number of rows; of a larger sample the first rows are kept.
            noise: Secret randomness.

        Returns:
            A sealed batch of `capacity` rows.

        Privacy:
            Keeping a subset of an overflowing sample is free for a mechanism that bounds the whole
            batch (ACCOUNTING 1.5). A record that cannot be gathered empties the batch instead of
            raising: an error that depends on what was sampled would be a release.
        """
        if rate.numerator == _WORD:
            chosen = np.arange(min(len(self._labels), capacity))
        else:
            words = noise.uniform_words(len(self._labels)).numpy().view(np.uint64)
            chosen = np.flatnonzero(words < np.uint64(rate.numerator))[:capacity]
        try:
            return Private(self._gather(chosen, capacity))
        except Exception:  # noqa: BLE001 - see Privacy above
            return Private(self._empty(capacity))

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        """Return every record once, in sealed batches of one padded shape.

        Args:
            rows: Rows of each batch.

        Yields:
            Sealed batches.
        """
        for start in range(0, len(self._labels), rows):
            chosen = np.arange(start, min(start + rows, len(self._labels)))
            yield Private(self._gather(chosen, rows))

    def _gather(self, chosen: np.ndarray, capacity: int) -> RecordBatch:
        """Copy rows, as many whatever was chosen, so that memory traffic tells nothing."""
        index = np.zeros(capacity, dtype=np.int64)
        index[: len(chosen)] = chosen
        mask = torch.arange(capacity) < len(chosen)
        if not len(self._labels):
            return self._empty(capacity)
        levels = torch.from_numpy(np.ascontiguousarray(self._levels[index]))
        labels = torch.from_numpy(self._labels[index].astype(np.int64))
        return RecordBatch(
            levels_MD=_masked(levels, mask.unsqueeze(1)),
            labels_M=_masked(labels, mask),
            mask_M=mask,
        )

    def _empty(self, capacity: int) -> RecordBatch:
        return RecordBatch(
            levels_MD=torch.zeros((capacity, self._levels.shape[1]), dtype=torch.uint8),
            labels_M=torch.zeros(capacity, dtype=torch.int64),
            mask_M=torch.zeros(capacity, dtype=torch.bool),
        )


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    return values * mask.to(values.dtype)
