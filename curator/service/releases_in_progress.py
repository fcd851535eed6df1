"""The one releases that are being made in this process: one of each analyst at a time.

The run's own lock is held by whoever makes its release, for as long as that takes. Who ends a run
must not wait for it, so it is marked as closed here, under a lock that is held for an instant.

Of one that is being made everybody who may see the run is told when it began. How far it is is for
the steward alone, who has the images: in tenths of all its batches, looked at every ten seconds by
a thread that waits for the clock and not for a batch.

Each batch is the same work, and there are as many as the declared bounds say, so that the tenths
are the same sequence whatever the records are. When each was reached is not proved to be: the pace
of batches could show where the records end, as behind the last one rows are read that were read
just now, and no longer from the disk. Over the whole pass that is one time; told as it goes, it
would be one for each batch. So no analyst and no auditor is told, and whoever comes by the
steward's log learns how many tenths were done at multiples of ten seconds. A pace for everybody, of
the first batch alone, would be public but wrong by several times: that batch also compiles and
loads.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, final

from curator.errors import Unavailable
from curator.service.live_run import LiveRun

LOOK_SECONDS: Final = 10.0
_PARTS: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class InProgress:
    """How a release stands that is being made.

    Privacy:
        `seconds` is the clock's. `tenths` counts batches, of which there are publicly many; when
        it changes may tell of records.
    """

    seconds: float
    tenths: int | None  # of its batches that are done; None for who is not the steward


@dataclass(kw_only=True, slots=True, eq=False)
class _Making:
    live: LiveRun
    began: float
    done: int = 0  # batches
    num_batches: int = 1
    tenths: int = 0  # at the last look


@final
class Setups:
    """Which runs are between their opening and their one release."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._making: dict[str, _Making] = {}  # by the run's id
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
            if any(one.live.analyst == analyst for one in self._making.values()):
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
            self._making[live.run_id] = _Making(live=live, began=now)

    def finish(self, live: LiveRun) -> None:
        """Note that it is not being made any more; call it before the run's lock is released.

        Args:
            live: What `begin` was told, or a run that makes no release.
        """
        with self._lock:
            self._making.pop(live.run_id, None)

    def note(self, live: LiveRun, done: int, num_batches: int) -> None:
        """Note how far a release is; nobody is told before the next look.

        Args:
            live: What `begin` was told.
            done: Batches that are over.
            num_batches: Public number of all of them.
        """
        with self._lock:
            making = self._making[live.run_id]
            making.done, making.num_batches = done, num_batches

    def look(self, live: LiveRun) -> int | None:
        """Look how far a release is, at a time that no batch decides.

        Args:
            live: What `begin` was told; its release may be over.

        Returns:
            How many tenths are done, where that is more than at the last look.
        """
        with self._lock:
            making = self._making.get(live.run_id)
            if making is None:
                return None
            before, making.tenths = making.tenths, _PARTS * making.done // making.num_batches
            return making.tenths if making.tenths > before else None

    def in_progress(self, now: float) -> dict[str, InProgress]:
        """Return how each release stands, by the run's id; its tenths are for the steward.

        Args:
            now: Monotonic seconds.
        """
        with self._lock:
            return {
                run_id: InProgress(seconds=now - one.began, tenths=one.tenths)
                for run_id, one in self._making.items()
            }

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
