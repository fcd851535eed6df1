"""Standard output and standard error that end no command: what is done is done, printed or not.

A character that the terminal cannot show is written as an escape. A full disk or a reader that has
gone is noted once; what follows is dropped. A command that only reads is stopped there instead.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast, final


class OutputLost(Exception):
    """Standard output takes no more; the cause says why."""


@final
class Output:
    """A text stream that raises nothing, or `OutputLost` where `stops` is set."""

    def __init__(self, stream: TextIO | None) -> None:
        """Wrap a stream.

        Args:
            stream: As Python opened it; None where the process was started without.
        """
        self._stream = stream
        self.stops = False
        self.failure: Exception | None = None
        with suppress(AttributeError, OSError, ValueError):  # one that cannot, or was closed
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def write(self, text: str) -> int:
        """Write text, or note that it cannot be.

        Args:
            text: Anything.
        """
        if self.failure is None:
            try:
                self._open_stream().write(text)
            except (OSError, ValueError) as problem:  # ValueError: it was closed
                self._lose(problem)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, or note that it cannot be."""
        if self.failure is None:
            try:
                self._open_stream().flush()
            except (OSError, ValueError) as problem:
                self._lose(problem)

    def isatty(self) -> bool:
        """Return whether a person watches."""
        with suppress(AttributeError, ValueError):  # there is none, or it was closed
            return bool(self._stream.isatty())  # type: ignore[union-attr]
        return False

    @property
    def why_lost(self) -> str:
        """Why nothing more could be written, in the system's words."""
        return getattr(self.failure, "strerror", None) or "it was closed"

    def __getattr__(self, name: str) -> Any:
        """Return what else a stream has, such as its encoding."""
        return getattr(self._stream, name)

    def _open_stream(self) -> TextIO:
        """Return the stream.

        Raises:
            OSError: If the process was started without it.
        """
        if self._stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._stream

    def _lose(self, problem: Exception) -> None:
        """Note a failure.

        Raises:
            OutputLost: If that is to stop the command.
        """
        self.failure = problem
        if self._stream in {sys.__stdout__, sys.__stderr__}:
            with suppress(
                OSError, ValueError
            ):  # else Python flushes it again at its end, and fails
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._open_stream().fileno())
                os.close(nowhere)
        if self.stops:
            raise OutputLost from problem


@contextmanager
def steady_output() -> Iterator[Output]:
    """Let nothing that a command prints end it; give what became of standard output."""
    before = sys.stdout, sys.stderr
    output = Output(sys.stdout)
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", Output(sys.stderr))
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before
