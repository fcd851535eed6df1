"""A run's epsilon alone: information that takes seconds and megabytes, computed one at a time."""

from __future__ import annotations

from concurrent.futures import Executor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.pld import pld_epsilon


def epsilon_alone(
    planner: Executor, setup: PrivacyEvent, step: PrivacyEvent, num_steps: int, delta: float
) -> float:
    """Return the epsilon of one declared run, by privacy loss distributions.

    Args:
        planner: Of one thread, so that the memory of many questions is used again.
        setup: The one-off release.
        step: Each of the others.
        num_steps: How many.
        delta: Of the data set, shared equally by the parts that cost something.
    """
    parts = [(setup, 1), (step, num_steps)]
    paid = [(event, count) for event, count in parts if not isinstance(event, NoEvent) and count]
    answers = [
        planner.submit(pld_epsilon, event, count, delta / len(paid)) for event, count in paid
    ]
    return sum(answer.result() for answer in answers)
