"""How a mechanism is asked: private batches for its setup, one gradient of one with a state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import ReleasedOnceMechanism, StatefulMechanism
from curator.privacy.batches import PASS_ROWS, RecordBatch, Samples, shape_of_pass
from curator.privacy.facts import DatasetFacts
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release


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
        return records.batches(PASS_ROWS)
    turns = itertools.count() if samples.before_all is None else range(samples.before_all)
    drawn = (records.poisson_batch(samples.rate, samples.capacity, noise) for _ in turns)
    if samples.before_all is None:
        return drawn
    return itertools.chain(drawn, records.batches(PASS_ROWS))


def num_private_batches(mechanism: ReleasedOnceMechanism, facts: DatasetFacts) -> int:
    """Return how many batches `private_batches` has for a mechanism that releases once.

    Args:
        mechanism: Says which samples it requires.
        facts: Of the data set: the number is public.
    """
    samples = mechanism.requirements().samples
    before_all = 0 if samples is None else samples.before_all or 0
    most_rows = facts.max_records_per_group or 1
    num_batches, _ = shape_of_pass(facts.max_size, most_rows, PASS_ROWS)
    return before_all + num_batches


def state_step(
    mechanism: StatefulMechanism, state: Any, step: int, samples: Samples, noise: NoiseSource
) -> tuple[Any, Release]:
    """Return the next state and the release.

    Args:
        mechanism: Of the run.
        state: Before the step.
        step: Its number in the ledger.
        samples: What it asks.
        noise: Secret randomness.
    """
    return mechanism.gradient(mechanism.numbered(state, step), samples, noise)
