"""One gradient of a mechanism with a state, when it is asked and when it is computed again."""

from __future__ import annotations

from typing import Any

from curator.mechanisms.base import StatefulMechanism
from curator.privacy.noise import NoiseSource
from curator.privacy.records import Samples
from curator.privacy.release import Release


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
