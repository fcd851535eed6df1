"""How many calls and bytes callers have at once, and how long a call is waited for.

A call that waits, for its message or for its answer to be taken, holds a worker. So calls are
counted before their first message, and one that waits too long is ended.

Bytes count from their arrival until the answer was taken. gRPC shows a message only when all of it
is here, so a message is small; a larger request comes in pieces, and its whole length is counted
before its second piece is asked for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, final

import grpc

from curator.errors import TooManyBytes, TooManyCalls
from curator.service.caller import Caller

CALLS_PER_CALLER = 24
_SWEEP_SECONDS = 1.0
_CROWDED_SECONDS = 5.0


@final
class OpenCalls:
    """Counts calls by caller; one caller never gets more than what is free for all others."""

    def __init__(self, workers: int) -> None:
        """Take the number of calls that can be served at once."""
        self._workers = workers
        self._lock = threading.Lock()
        self._active: Counter[str] = Counter()

    def is_crowded(self) -> bool:
        """Return whether less than a quarter of the workers is free."""
        with self._lock:
            return 4 * self._active.total() > 3 * self._workers

    @contextmanager
    def counted(self, caller: Caller) -> Iterator[None]:
        """Count a call while it is open.

        Raises:
            TooManyCalls: If the caller has too many open, for itself or beside the others.
        """
        with self._lock:
            free = self._workers - self._active.total()
            if self._active[caller.name] >= min(CALLS_PER_CALLER, free):
                raise TooManyCalls
            self._active[caller.name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._active[caller.name] -= 1
                if not self._active[caller.name]:
                    del self._active[caller.name]


@final
class CallDeadlines:
    """Ends calls that wait for the other side longer than they may.

    When the curator is crowded that is a few seconds: a client whose idle stream is ended opens
    another and sends the same step, and many callers together cannot hold every worker for long.
    """

    def __init__(
        self, is_crowded: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take who knows how many calls are open, and a clock in seconds."""
        self._is_crowded = is_crowded
        self._clock = clock
        self._lock = threading.Lock()
        self._waits: dict[grpc.ServicerContext, tuple[float, float]] = {}  # since, at most
        self._stopping = threading.Event()

    @contextmanager
    def waiting(self, context: grpc.ServicerContext, seconds: float) -> Iterator[None]:
        """Let a call wait; if it takes longer, the call is cancelled from another thread.

        Args:
            context: Of the call.
            seconds: How long at most.
        """
        with self._lock:
            self._waits[context] = (self._clock(), seconds)
        try:
            yield
        finally:
            with self._lock:
                del self._waits[context]

    def sweep(self) -> None:
        """Cancel every call whose time is over; when stopping, every call that waits."""
        now, crowded, stopping = self._clock(), self._is_crowded(), self._stopping.is_set()
        with self._lock:
            late = [
                context
                for context, (since, most) in self._waits.items()
                if stopping or now - since >= (min(most, _CROWDED_SECONDS) if crowded else most)
            ]
        for context in late:
            context.cancel()  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Begin to look for late calls."""
        threading.Thread(target=self._keep_sweeping, daemon=True, name="patience").start()

    @property
    def is_stopping(self) -> bool:
        """Whether no call may wait any more."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End every call that only waits, so that draining waits for work alone."""
        self._stopping.set()
        self.sweep()

    def _keep_sweeping(self) -> None:
        while not self._stopping.wait(_SWEEP_SECONDS):
            self.sweep()


LARGEST_MESSAGE: Final = 2 << 20
"""Of gRPC. As many may come at once as there are workers, and each may stop before its end."""

LARGEST_REQUESTS: Final = 4
"""So many requests of the largest size find room at once, from whomever they are."""


@final
class Room:
    """Counts bytes by caller; one caller never gets more than what is left free for all others."""

    def __init__(self, most_bytes: int) -> None:
        """Take how many bytes there is room for."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, caller: Caller, num_bytes: int) -> Iterator[None]:
        """Count bytes while the block lasts.

        Raises:
            TooManyBytes: If there is no room for them, beside the caller's others.
        """
        with self._lock:
            left_free = self._most - self._held.total() - num_bytes
            if self._held[caller.name] + num_bytes > left_free:
                raise TooManyBytes
            self._held[caller.name] += num_bytes
        try:
            yield
        finally:
            with self._lock:
                self._held[caller.name] -= num_bytes
                if not self._held[caller.name]:
                    del self._held[caller.name]
