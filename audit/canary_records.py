"""The records of a canary as a service holds them, for throw-away curators only.

One canary has a record that the mechanism's private computation cannot survive: each torch function
that would touch its pixels raises. Only its shape can be read, and rows can be taken apart or
picked, as the sanitizer does before and after a failure. Shards copy records byte by byte, which no
pixel can make fail, so there this record has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, final

import torch
from torch import Tensor

from audit.canaries import MAX_RECORDS, Pair
from curator.data.sampling import PrivateRecords
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private

_HARMLESS = frozenset({"__get__", "__getitem__", "dim", "size", "__len__", "unbind", "__iter__"})


class Records(Protocol):
    """What the service asks of the records of a data set."""

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        """Return a fresh Poisson sample."""
        ...

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        """Return every record once."""
        ...

    def is_whole(self) -> bool:
        """Return whether all records are still there."""
        ...


class CanaryFailure(RuntimeError):
    """The failing record was computed with."""


@final
class _Unusable(Tensor):
    """Pixels that raise as soon as they are used."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Let shapes through and refuse everything else.

        Raises:
            CanaryFailure: If the pixels would be used.
        """
        if getattr(func, "__name__", "") not in _HARMLESS:
            raise CanaryFailure
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Box:
    """Stands in for the sealed box of a batch that holds nothing but the public canary."""

    batch: RecordBatch

    def unseal(self) -> RecordBatch:
        """Return the batch."""
        return self.batch


@final
class FailingRecords:
    """Other records and one that fails: Poisson sampling draws its coin apart from theirs."""

    def __init__(self, others: PrivateRecords, dimension: int) -> None:
        """Take the records beside the failing one."""
        self._others = others
        self._dimension = dimension

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        """Return a sample: with probability `rate` one that fails, else the others' alone."""
        coin = int(noise.uniform_words(1).item()) % (1 << 64)
        if coin < rate.numerator:
            return self._failing(capacity)
        return self._others.poisson_batch(rate, capacity, noise)

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        """Return the others' batches, then one with the failing record."""
        yield from self._others.batches(rows)
        yield self._failing(rows)

    def is_whole(self) -> bool:
        """Return whether the others are still there."""
        return self._others.is_whole()

    def _failing(self, rows: int) -> Private[RecordBatch]:
        levels = torch.zeros((rows, self._dimension), dtype=torch.uint8)
        mask = torch.arange(rows) == 0
        batch = RecordBatch(
            levels_MD=levels.as_subclass(_Unusable),
            labels_M=torch.zeros(rows, dtype=torch.int64),
            mask_M=mask,
            units_M=torch.where(mask, 0, -1),
        )
        return cast("Private[RecordBatch]", _Box(batch))


def records_of(pair: Pair, *, with_extra: bool) -> Records:
    """Return the records of D, or of D', as a service holds them."""
    if not with_extra:
        return PrivateRecords(pair.base, MAX_RECORDS)
    if pair.fails:
        return FailingRecords(
            PrivateRecords(pair.base, MAX_RECORDS), pair.samples.images_ND.shape[1]
        )
    return PrivateRecords(pair.both, MAX_RECORDS)
