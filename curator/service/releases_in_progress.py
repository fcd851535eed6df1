"""The one releases that are being made in this process: one of each analyst at a time.

The run's own lock is held by whoever makes its release, for as long as that takes. Who ends a run
must not wait for it, so it is marked as closed here, under a lock that is held for an instant.

Of one that is being made others are told when it began, and nothing of how far it is. Each batch of
the pass is the same work, and there are as many as the declared bounds say. But the pace of batches
could still show where the records end: behind the last one, rows are read that were read just now,
and no longer from the disk. Over the whole pass that is one time; told as it goes, it would be one
for each batch. Time that has passed, and declared numbers, are the same whatever the records are.
"""

from __future__ import annotations

import threading
from typing import final

from curator.errors import Unavailable
from curator.service.live_run import LiveRun


@final
class Setups:
    """Which runs are between their opening and their one release."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._making: dict[str, tuple[LiveRun, float]] = {}  # with when it began
        self._stopping = threading.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether all of them must end."""
        return self._stopping.is_set()

    def refuse_second(self, analyst: str) -> None:
        """Refuse to begin while another release of this analyst is being made here.

        Raises:
            Unavailable: If there is one; it is over in a while.
        """
        with self._lock:
            if any(live.analyst == analyst for live, _ in self._making.values()):
                msg = (
                    "the one release of another run of yours is being made, and one is made at a "
                    "time: ask again when it is ready, or close that run; nothing was charged"
                )
                raise Unavailable(msg)

    def begin(self, live: LiveRun, now: float) -> None:
        """Note that the release of a run is being made.

        Args:
            live: Of this process; its lock is held until `finish`.
            now: Monotonic seconds.
        """
        with self._lock:
            self._making[live.run_id] = live, now

    def finish(self, live: LiveRun) -> None:
        """Note that it is not being made any more; call it before the run's lock is released.

        Args:
            live: What `begin` was told, or a run that makes no release.
        """
        with self._lock:
            self._making.pop(live.run_id, None)

    def seconds(self, now: float) -> dict[str, float]:
        """Return for how long each release has been made, by the run's id.

        Args:
            now: Monotonic seconds.

        Privacy:
            Functions of the clock and of when runs were opened; no batch changes them.
        """
        with self._lock:
            return {run_id: now - began for run_id, (_, began) in self._making.items()}

    def is_making(self, run_id: str) -> bool:
        """Return whether the release of a run is being made here."""
        with self._lock:
            return run_id in self._making

    def end(self, live: LiveRun) -> bool:
        """End the making of a run's release, if it is being made, without waiting for it.

        Args:
            live: The run; it is marked as closed, so no step of it will ever be claimed.
        """
        with self._lock:
            if live.run_id not in self._making:
                return False
            live.closed = True
            return True

    def stop(self) -> None:
        """End all of them; for when the curator stops."""
        self._stopping.set()
