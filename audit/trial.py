"""One trial in process, by the mechanism's own mathematics: for public canaries alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from audit.canaries import CAPACITY, Pair
from audit.canary_records import Records
from audit.target import Target
from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import SampledMechanism, StatefulMechanism
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.state.asking import private_batches, state_step

_ROWS = CAPACITY  # a service reads more at once, and hashes as many, padding or not


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trial:
    """The answers of one trial, and what the mechanism then remembers, packed."""

    answers: list[Release]
    state: dict[str, Tensor]


def run_in_process(
    target: Target,
    pair: Pair,
    records: Records,
    noise: NoiseSource,
    steps: AbstractContextManager[Any] | None = None,
) -> Trial:
    """Return what a curator would answer in one trial.

    Args:
        target: The mechanism.
        pair: The canary, whose samples are sent.
        records: What the curator holds.
        noise: Its randomness.
        steps: Entered around what is computed at each step, and not around what is read before.
    """
    mechanism, steps = target.open(), steps or nullcontext()
    samples = target.sends(pair, mechanism.rows_per_step)
    if isinstance(mechanism, StatefulMechanism):
        sealed, answers = cast("PrivateRecords", records), []
        fresh = mechanism.requirements().samples is not None
        batches = private_batches(mechanism, sealed, noise) if fresh else records.batches(_ROWS)
        state = mechanism.start(batches)
        with steps:
            for step in range(1, target.num_steps + 1):
                state, answer = state_step(mechanism, state, step, samples, noise)
                answers.append(answer)
        return Trial(answers=answers, state=mechanism.pack(state))
    with steps:
        if isinstance(mechanism, SampledMechanism):
            batch = records.poisson_batch(mechanism.spec.rate, mechanism.spec.capacity, noise)
            answer = mechanism.gradient(samples, batch, noise)
        else:
            batches = private_batches(mechanism, cast("PrivateRecords", records), noise)
            released = mechanism.setup(batches, noise)
            answer = released if target.statistic else mechanism.gradient(samples, released)
    return Trial(answers=[answer], state={})
