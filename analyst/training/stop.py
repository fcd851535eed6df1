"""A polite stop: the first SIGINT or SIGTERM asks, a second SIGINT or SIGTERM interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final


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
def stop_on_signals(say: Callable[[str], None]) -> Iterator[StopRequest]:
    """Turn signals into a request while the block runs; the previous handlers come back after it.

    Args:
        say: Called once, when the first signal arrives.

    Yields:
        The request.
    """
    request = StopRequest()

    def handle(number: int, _frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.ask()
        say(
            f"{signal.Signals(number).name}: stopping after this step; once more interrupts at once"
        )

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
