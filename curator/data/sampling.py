"""Draw private batches from the secure stream; what is sampled never leaves a `Private` box.

Every unit, a record or a group, is included independently with exactly the dyadic probability that
the accountant charges: its number is binomial and, given the number, every subset is as likely.
Statement and proof: sampling.md. Fixed-size sampling, for a replace-one ledger, would be a second
class here beside `PrivateRecords`.

What is sampled depends on secret randomness and public numbers alone, never on a request. Each
sample is handed out once, and never to a forked child.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import final

import numpy as np
import torch
from torch import Tensor

from curator.data.binomial import draw_count
from curator.data.groups import Indices, Units
from curator.data.images import LabelledImages
from curator.data.levels import SHALLOW, Levels
from curator.data.store import StoredImages
from curator.data.stored_rows import StoredRows
from curator.data.subset import ordered_subset
from curator.errors import DatasetOutOfService
from curator.privacy.batches import RecordBatch, shape_of_pass
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private

Places = tuple[Indices, Indices]
"""For each row of a batch the record that it takes, and the position of its unit; -1 for none."""

_MOST = 16


@final
class DrawnAhead:
    """A few samples that are ready, for any run that samples alike."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._ready: list[tuple[SamplingRate, int, Places]] = []
        self._pid = os.getpid()

    def put(self, rate: SamplingRate, capacity: int, places: Places) -> None:
        """Keep a sample; the oldest one is forgotten when there are many."""
        with self._lock:
            self._ready = [*self._ready[1 - _MOST :], (rate, capacity, places)]

    def take(self, rate: SamplingRate, capacity: int) -> Places | None:
        """Return a sample and forget it.

        Returns:
            The sample, or None if none like it is ready.
        """
        if self._pid != os.getpid():
            return None
        with self._lock:
            for place, (its_rate, its_capacity, places) in enumerate(self._ready):
                if its_rate == rate and its_capacity == capacity:
                    del self._ready[place]
                    return places
        return None


Copied = tuple[np.ndarray, np.ndarray]
"""Levels and labels of some rows, in memory of their own."""


@final
class PrivateRecords:
    """The private records of one data set; hands out nothing but sealed batches."""

    def __init__(self, images: LabelledImages | StoredImages, max_units: int | None = None) -> None:
        """Take images; stored ones stay on the disk.

        Args:
            images: The records, and their groups if groups are the unit.
            max_units: Public upper bound of the number of units; it decides how long passing over
                the whole set takes, and counting a sample. By default the true number, for sets
                that are public.

        Raises:
            ValueError: If their groups are damaged, or there are more units than the bound.
        """
        self._units = Units.of(images)
        self._ahead = DrawnAhead()
        self._max_units = self._units.num_units if max_units is None else max_units
        if self._units.num_units > self._max_units:
            msg = "there are more units than the declared bound"
            raise ValueError(msg)
        self._stored = images.levels if isinstance(images, StoredImages) else None
        # an empty set gets a row to read, which is never sampled, so that it takes the same path
        self._levels, self._labels = _rows(images), images.labels
        if not len(images.labels):
            self._levels = np.zeros((1, self._levels.shape[1]), dtype=self._levels.dtype)
            self._labels = np.zeros(1, dtype=np.int64)

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "PrivateRecords(<sealed>)"

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        """Return a fresh Poisson sample of the units, padded to the capacity.

        Args:
            rate: Probability of each unit.
            capacity: Public number of rows; of a larger sample uniformly drawn whole units are
                kept while they fit.
            noise: Secret randomness.

        Returns:
            A sealed batch of `capacity` rows.

        Privacy:
            Keeping a subset of an overflowing sample is free for a mechanism that bounds the whole
            batch (ACCOUNTING 1.5). As many units are drawn and as many rows copied whatever the
            sample's size. A record that cannot be read is left out of the batches it is sampled
            into, alone, instead of raising: an error that depends on what was sampled would be a
            release. A file that was cut has lost records that do not say so themselves; the batch
            is empty then, whatever was sampled.
        """
        try:
            places = self._ahead.take(rate, capacity)
            rows, units = places or self._drawn(rate, capacity, noise)
            batch = self._gather(rows, units)
            return Private(batch if self.is_whole() else self._empty(capacity))
        except Exception:  # noqa: BLE001 - see Privacy above
            return Private(self._empty(capacity))

    def is_whole(self) -> bool:
        """Return whether all records are still there; it looks at the file's length alone."""
        return self._stored is None or self._stored.is_whole()

    def draw_ahead(self, rate: SamplingRate, capacity: int, noise: NoiseSource) -> None:
        """Draw the places of a sample that some later batch will have; reads no record.

        Args:
            rate: Probability of each unit.
            capacity: Public number of rows.
            noise: Secret randomness.

        Privacy:
            Which sample a batch has does not depend on when it was drawn.
        """
        with suppress(Exception):  # then the batch draws for itself
            self._ahead.put(rate, capacity, self._drawn(rate, capacity, noise))

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        """Return every record once, in sealed batches of one padded shape; no unit is split.

        Args:
            rows: Rows of each batch; more if units may have many, by their public bound.

        Yields:
            As many sealed batches as the declared bound of units could fill, the last ones empty:
            their number is public.

        Raises:
            DatasetOutOfService: If the file was cut, whatever is in the batches.
        """
        num_batches, rows = shape_of_pass(self._max_units, self._units.most_rows, rows)
        start = 0
        for _ in range(num_batches):
            stop = self._units.after(start, rows)
            places = self._units.place(np.arange(start, stop), rows)
            batch = self._gather(*places, self._copied_side_by_side)
            if not self.is_whole():
                raise DatasetOutOfService
            yield Private(batch)
            start = stop

    def _drawn(self, rate: SamplingRate, capacity: int, noise: NoiseSource) -> Places:
        """Return the record of each place, and its unit's position: -1 where none was sampled."""
        count = draw_count(self._units.num_units, rate, noise, self._max_units)
        drawn = ordered_subset(max(self._units.num_units, 1), capacity, noise)
        rows, units = self._units.place(drawn, capacity)
        return rows, np.where(units < count, units, -1)

    def _gather(
        self, rows: Indices, units: Indices, copied: Callable[[Indices], Copied] | None = None
    ) -> RecordBatch:
        """Copy rows, as many whatever was sampled, so that memory traffic tells nothing.

        If the copy fails it is done again one by one, with what was sampled alone: neither a
        record beyond the sample's size nor a companion may matter.
        """
        try:
            levels, labels = (copied or self._copied)(rows)
        except Exception:  # noqa: BLE001 - as above
            levels, labels = self._blank(len(rows))
            units = units.copy()
            for place in np.flatnonzero(units >= 0):
                one = slice(place, place + 1)
                try:
                    levels[one], labels[one] = self._copied(rows[one])
                except Exception:  # noqa: BLE001 - this record contributes nothing
                    levels[one], labels[one], units[one] = 0, 0, -1
        mask = torch.from_numpy(units >= 0)
        return RecordBatch(
            levels_MD=_masked(_tensor(levels), mask.unsqueeze(1)),
            labels_M=_masked(torch.from_numpy(labels), mask),
            mask_M=mask,
            units_M=torch.from_numpy(units.astype(np.int64)),
        )

    def _copied_side_by_side(self, rows: Indices) -> Copied:
        """Copy rows that follow each other, and then 0, by one read of as many, wherever they are.

        Where fewer are left the read begins earlier.
        """
        first = min(int(rows[0]), max(len(self._levels) - len(rows), 0))
        block = self._levels[first : first + len(rows)]
        levels = block[np.maximum(rows - first, 0)]  # 0 is padding there, whatever stands in it
        return levels, self._labels[rows].astype(np.int64)

    def _copied(self, rows: Indices) -> Copied:
        return np.ascontiguousarray(self._levels[rows]), self._labels[rows].astype(np.int64)

    def _blank(self, capacity: int) -> tuple[np.ndarray, np.ndarray]:
        levels = np.zeros((capacity, self._levels.shape[1]), dtype=self._levels.dtype)
        return levels, np.zeros(capacity, dtype=np.int64)

    def _empty(self, capacity: int) -> RecordBatch:
        levels, labels = self._blank(capacity)
        return RecordBatch(
            levels_MD=_tensor(levels),
            labels_M=torch.from_numpy(labels),
            mask_M=torch.zeros(capacity, dtype=torch.bool),
            units_M=torch.full((capacity,), -1, dtype=torch.int64),
        )


def _rows(images: LabelledImages | StoredImages) -> Levels | StoredRows:
    if isinstance(images, StoredImages):
        return images.levels
    return images.levels.reshape(len(images.levels), math.prod(images.levels.shape[1:]))


def _tensor(levels: np.ndarray) -> Tensor:
    """Return levels as a batch holds them, whatever they are."""
    return torch.from_numpy(levels if levels.dtype == SHALLOW else levels.astype(np.int32))


def _masked(values: Tensor, mask: Tensor) -> Tensor:
    return values * mask.to(values.dtype)
