"""What a mechanism is given of the private records beside a step's own: all once, or samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import ReleasedOnceMechanism, StatefulMechanism
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import RecordBatch

_ROWS = 512


def private_batches(
    mechanism: StatefulMechanism | ReleasedOnceMechanism,
    records: PrivateRecords,
    noise: NoiseSource,
) -> Iterator[Private[RecordBatch]]:
    """Return the batches that `setup`, `start` and `unpack` of a mechanism take.

    Args:
        mechanism: Says which samples it requires.
        records: Of the data set.
        noise: Secret randomness, for the samples.

    Returns:
        Every record once, after as many fresh Poisson samples as come before; or an endless stream
        of such samples. Each is drawn when it is asked for.
    """
    samples = mechanism.requirements().samples
    if samples is None:
        return records.batches(_ROWS)
    turns = itertools.count() if samples.before_all is None else range(samples.before_all)
    drawn = (records.poisson_batch(samples.rate, samples.capacity, noise) for _ in turns)
    return drawn if samples.before_all is None else itertools.chain(drawn, records.batches(_ROWS))
