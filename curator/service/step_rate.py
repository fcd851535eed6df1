"""How fast the steps of one analyst on one data set may come, by the steward's policy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import final

from curator.errors import TooFast

_BURST_SECONDS = 2.0


@final
class StepRates:
    """One bucket for each data set and analyst: steps at a steady rate, with a short burst."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Start with full buckets."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next: dict[tuple[str, str], float] = {}

    def take(self, dataset: str, analyst: str, most: float | None) -> None:
        """Count one step, or refuse it before anything is charged.

        Args:
            dataset: Of the run.
            analyst: Who owns it.
            most: Steps per second; None for no limit.

        Raises:
            TooFast: With the rule, its number and the seconds to wait.
        """
        if most is None:
            return
        now, key = self._monotonic(), (dataset, analyst)
        with self._lock:
            longest_ago = now - max(_BURST_SECONDS, 1 / most) + 1 / most
            due = max(self._next.get(key, -math.inf), longest_ago)
            if due > now:
                msg = f"max_steps_per_second is {most:g}"
                raise TooFast(msg, retry_seconds=due - now)
            self._next[key] = due + 1 / most
