"""Samples that were drawn before anybody asked, so that a step does not wait for them.

What is sampled depends on secret randomness and public numbers alone, never on a request. Each
sample is handed out once, and never to a forked child.
"""

from __future__ import annotations

import os
import threading
from typing import final

from curator.data.groups import Indices
from curator.privacy.event_numbers import SamplingRate

Places = tuple[Indices, Indices]
"""For each row of a batch the record that it takes, and the position of its unit; -1 for none."""

_MOST = 16


@final
class DrawnAhead:
    """A few samples that are ready, for any run that samples alike."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._ready: list[tuple[SamplingRate, int, Places]] = []
        self._pid = os.getpid()

    def put(self, rate: SamplingRate, capacity: int, places: Places) -> None:
        """Keep a sample; the oldest one is forgotten when there are many."""
        with self._lock:
            self._ready = [*self._ready[1 - _MOST :], (rate, capacity, places)]

    def take(self, rate: SamplingRate, capacity: int) -> Places | None:
        """Return a sample and forget it.

        Returns:
            The sample, or None if none like it is ready.
        """
        if self._pid != os.getpid():
            return None
        with self._lock:
            for place, (its_rate, its_capacity, places) in enumerate(self._ready):
                if its_rate == rate and its_capacity == capacity:
                    del self._ready[place]
                    return places
        return None
