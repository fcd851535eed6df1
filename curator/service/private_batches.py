"""What a mechanism that keeps a state is given of the private records: all once, or samples."""

from __future__ import annotations

from collections.abc import Iterator

from curator.data.sampling import PrivateRecords
from curator.mechanisms.mechanism import SampledStatefulMechanism, StatefulMechanism
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import RecordBatch

_ROWS = 512


def private_batches(
    mechanism: StatefulMechanism, records: PrivateRecords, noise: NoiseSource
) -> Iterator[Private[RecordBatch]]:
    """Return the batches that `start` and `unpack` of a mechanism take.

    Args:
        mechanism: Says whether it trains on samples.
        records: Of the data set.
        noise: Secret randomness, for the samples.

    Returns:
        Every record once; or an endless stream, each batch a fresh Poisson sample that is drawn
        when it is asked for.
    """
    if isinstance(mechanism, SampledStatefulMechanism):
        return _samples(mechanism, records, noise)
    return records.batches(_ROWS)


def _samples(
    mechanism: SampledStatefulMechanism, records: PrivateRecords, noise: NoiseSource
) -> Iterator[Private[RecordBatch]]:
    while True:
        yield records.poisson_batch(mechanism.sampling_rate, mechanism.capacity, noise)
