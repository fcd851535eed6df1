"""What a mechanism is given of the private records beside a step's own: all once, or samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from curator.data.sampling import PrivateRecords
from curator.mechanisms.mechanism import (
    ReleasedOnceMechanism,
    SampledStatefulMechanism,
    StatefulMechanism,
    TrainedOnceMechanism,
)
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


def setup_batches(
    mechanism: ReleasedOnceMechanism, records: PrivateRecords, noise: NoiseSource
) -> Iterator[Private[RecordBatch]]:
    """Return the batches that `setup` of a mechanism takes.

    Args:
        mechanism: Says whether it trains something first.
        records: Of the data set.
        noise: Secret randomness, for the samples.

    Returns:
        Every record once; after fresh Poisson samples, each drawn when it is asked for, if
        something is trained on them.
    """
    if not isinstance(mechanism, TrainedOnceMechanism):
        return records.batches(_ROWS)
    samples = (
        records.poisson_batch(mechanism.training_rate, mechanism.training_capacity, noise)
        for _ in range(mechanism.num_training_samples)
    )
    return itertools.chain(samples, records.batches(_ROWS))


def _samples(
    mechanism: SampledStatefulMechanism, records: PrivateRecords, noise: NoiseSource
) -> Iterator[Private[RecordBatch]]:
    while True:
        yield records.poisson_batch(mechanism.sampling_rate, mechanism.capacity, noise)
