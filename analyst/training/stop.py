"""A polite stop: the first SIGINT or SIGTERM asks, a second SIGINT or SIGTERM interrupts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, final

_STDERR: Final = 2
_WORDS: Final = "stopping after this step; once more interrupts at once"


@final
class StopRequest:
    """Whether somebody asked the run to stop; waiting on it is how the run sleeps."""

    def __init__(self) -> None:
        """Start with nothing asked."""
        self._event = threading.Event()

    def ask(self) -> None:
        """Ask the run to stop after the current step."""
        self._event.set()

    @property
    def asked(self) -> bool:
        """Return whether a stop was asked."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until a stop is asked or `seconds` are over; return whether it was asked."""
        return self._event.wait(seconds)


@contextmanager
def stop_on_signals(*, quiet: bool) -> Iterator[StopRequest]:
    """Turn signals into a request while the block runs; the previous handlers come back after it.

    A handler runs in the middle of anything, also of writing to the screen. So it says what it has
    to say past all buffers and bars.

    Yields:
        The request.
    """
    request = StopRequest()

    def handle(number: int, _frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.ask()
        if not quiet:
            name = signal.Signals(number).name
            with suppress(OSError):  # nobody may be there to read it
                os.write(_STDERR, f"\n{name}: {_WORDS}\n".encode())

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
