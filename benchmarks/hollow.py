"""A curator whose barrier is hollow: every step gets the first step's release again.

All else is the product: TLS, tokens, checks, claims, charges, encoding. So what is left of a step
is the RPC. It would break the promise of fresh noise; it serves random images only.

    python -m benchmarks.hollow serve --dir DIR ...
"""

from __future__ import annotations

import sys

from curator.cli import main
from curator.data.sampling import PrivateRecords
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release

_releases: list[Release] = []
_batches: list[Private[RecordBatch]] = []
_gradient, _poisson_batch = DpSinkhorn.gradient, PrivateRecords.poisson_batch


def _hollow_gradient(
    self: DpSinkhorn, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
) -> Release:
    if not _releases:
        _releases.append(_gradient(self, samples, records, noise))
    return _releases[0]


def _hollow_batch(self: PrivateRecords, *arguments: object) -> Private[RecordBatch]:
    if not _batches:
        _batches.append(_poisson_batch(self, *arguments))  # type: ignore[arg-type]
    return _batches[0]


def _nothing_ahead(self: PrivateRecords, *arguments: object) -> None:
    """Draw no sample: it belongs to the barrier, which is hollow."""


if __name__ == "__main__":
    DpSinkhorn.gradient = _hollow_gradient  # type: ignore[method-assign]
    PrivateRecords.poisson_batch = _hollow_batch  # type: ignore[method-assign, assignment]
    PrivateRecords.draw_ahead = _nothing_ahead  # type: ignore[method-assign, assignment]
    sys.exit(main())
