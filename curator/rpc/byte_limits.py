"""How many bytes of requests may be here at once, for one caller and for all together.

Bytes count from their arrival until the answer was taken. gRPC shows a message only when all of it
is here, so a message is small; a larger request comes in pieces, and its whole length is counted
before its second piece is asked for.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

from curator.errors import TooManyBytes
from curator.service.caller import Caller

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
