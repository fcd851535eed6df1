"""One step of DP-Sinkhorn in two halves: a public one, and one that meets the sampled records.

They run operation by operation on any device, or as two CUDA graphs that a card replays. Either
way each half does the same work for every batch, and only the second is given records.

Shape legend: N = n + n' samples, M capacity (padded private rows), D pixels.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from curator.divergences.cost import uniform_points
from curator.divergences.cuda_graph import CapturedFunction
from curator.divergences.sinkhorn import TransportSolver, masked_points, private_half, public_half
from curator.privacy.batches import RecordBatch, Samples, level_dtype
from curator.sanitizer.clipped import clipped_to_lattice

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Halves:
    """Both halves as functions of tensors on one device; every field is public."""

    solver: TransportSolver
    device: torch.device
    dtype: torch.dtype
    num_samples: int
    num_debias: int
    capacity: int
    dimension: int
    max_level: int
    clip_norm: float
    radius: int

    def public(self, images_ND: Tensor, labels_N: Tensor) -> Tensor:
        """Return the gradient of the self term, one row per sample."""
        return public_half(self.solver, images_ND, labels_N, self.num_samples)

    def private(
        self,
        images_nD: Tensor,
        labels_n: Tensor,
        levels_MD: Tensor,
        labels_M: Tensor,
        mask_M: Tensor,
    ) -> Tensor:
        """Return the half of the gradient that sees the records.

        Privacy:
            Only ever called inside the sanitizer's guard, or with zeros in place of records.
        """
        pixels_MD = levels_MD.to(self.dtype) * (2 / self.max_level) - 1
        return private_half(
            self.solver,
            uniform_points(images_nD, labels_n),
            masked_points(pixels_MD, labels_M, mask_M),
            mask_M,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BegunStep:
    """A step whose public half is known or on its way.

    `private_rows` returns the n rows, as the sanitizer takes them; `debias_rows` the n' others.
    """

    private_rows: Callable[[RecordBatch], Tensor]
    debias_rows: Callable[[], Tensor]


class Step(Protocol):
    """How the halves are run."""

    def begun(self, samples: Samples) -> AbstractContextManager[BegunStep]:
        """Begin a step; its results are gone at the end of the block."""
        ...


@final
class EagerStep:
    """Operation by operation."""

    def __init__(self, halves: Halves) -> None:
        """Take the halves."""
        self._halves = halves

    @contextmanager
    def begun(self, samples: Samples) -> Iterator[BegunStep]:
        """See `Step`."""
        halves = self._halves
        first = slice(0, halves.num_samples)
        images_ND = samples.images_ND.to(halves.device, halves.dtype)
        labels_N = samples.labels_N.to(halves.device)
        public_ND = halves.public(images_ND, labels_N)

        def private_rows(batch: RecordBatch) -> Tensor:
            records = (batch.levels_MD, batch.labels_M, batch.mask_M)
            given = (one.to(halves.device) for one in records)
            return halves.private(images_ND[first], labels_N[first], *given) + public_ND[first]

        yield BegunStep(
            private_rows=private_rows, debias_rows=lambda: public_ND[halves.num_samples :]
        )


@final
class CapturedStep:
    """Two CUDA graphs on one stream, captured with zeros before any record is seen."""

    def __init__(self, halves: Halves) -> None:
        """Capture both."""
        rows, first = halves.num_samples + halves.num_debias, slice(0, halves.num_samples)
        self._stream = stream = torch.cuda.Stream(halves.device)  # type: ignore[no-untyped-call]
        public: list[Tensor] = []  # on the card; the last one is the graph's own

        def public_function(images_ND: Tensor, labels_N: Tensor) -> tuple[Tensor, ...]:
            public.append(halves.public(images_ND, labels_N))
            return (public[-1][halves.num_samples :],)

        self._public = CapturedFunction(
            public_function,
            (
                torch.zeros((rows, halves.dimension), dtype=halves.dtype),
                torch.zeros(rows, dtype=torch.int64),
            ),
            stream,
        )
        images_ND, labels_N = self._public.arguments

        def private_function(*records: Tensor) -> tuple[Tensor, ...]:
            rows_nD = halves.private(images_ND[first], labels_N[first], *records)
            whole_nD = rows_nD + public[-1][first]
            return (clipped_to_lattice(whole_nD, halves.clip_norm, halves.radius),)

        self._private = CapturedFunction(
            private_function,
            (
                torch.zeros(
                    (halves.capacity, halves.dimension), dtype=level_dtype(halves.max_level)
                ),
                torch.zeros(halves.capacity, dtype=torch.int64),
                torch.zeros(halves.capacity, dtype=torch.bool),
            ),
            stream,
        )
        del public[:-1]
        self._lock = threading.Lock()

    @contextmanager
    def begun(self, samples: Samples) -> Iterator[BegunStep]:
        """See `Step`; one step at a time, since a replay uses the buffers of the one before."""
        with self._lock:
            self._public.start(samples.images_ND, samples.labels_N)

            def private_rows(batch: RecordBatch) -> Tensor:
                self._private.start(batch.levels_MD, batch.labels_M, batch.mask_M)
                return self._private.wait()[0]

            try:
                yield BegunStep(
                    private_rows=private_rows, debias_rows=lambda: self._public.wait()[0]
                )
            finally:
                self._stream.synchronize()


def step_on(halves: Halves, *, is_captured: bool) -> Step:
    """Return the way to run a step."""
    if is_captured:
        try:
            return CapturedStep(halves)
        except Exception:  # noqa: BLE001 - a driver can fail in any way; no record was seen yet
            _logger.warning("the steps of a run could not be captured as CUDA graphs")
    return EagerStep(halves)
