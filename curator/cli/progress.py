"""Progress of a long command: on standard error, and only where a person watches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from curator.cli.screen import Screen

if TYPE_CHECKING:
    from curator.sources.options import Progress

_SECONDS = 0.2


def progress_for(screen: Screen) -> Progress:
    """Return what shows progress: nothing, unless standard error is a terminal."""
    from curator.sources.options import no_progress

    if screen.quiet or not sys.stderr.isatty():
        return no_progress
    return _Line()


class _Line:
    """One line that is written over, a few times a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == of:
            self._next = now + _SECONDS
            end = "\r\033[K" if done == of else ""
            sys.stderr.write(f"\r{done:,} of {of:,} files read ({done / of:.0%}){end}")
            sys.stderr.flush()
