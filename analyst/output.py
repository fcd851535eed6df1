"""Standard output and standard error that end no command: what is done is done, printed or not.

A character that the terminal cannot show is written as an escape. A full disk or a reader that has
gone is noted once; what follows is dropped. A command that only reads is stopped there instead.
Standard error, where a curator that serves writes its log, is tried again each time.
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

    def __init__(self, stream: TextIO | None, *, tries_again: bool = False) -> None:
        """Wrap a stream.

        Args:
            stream: As Python opened it; None where the process was started without.
            tries_again: Whether it is written to again after a failure.
        """
        self._stream = stream
        self._tries_again = tries_again
        self.stops = False
        self.failure: Exception | None = None
        with suppress(AttributeError, OSError, ValueError):  # one that cannot, or was closed
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def write(self, text: str) -> int:
        """Write text, or note that it cannot be."""
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
        if not self._tries_again:
            self.failure = problem
        if self.stops:
            raise OutputLost from problem

    def end(self) -> None:
        """Leave nothing that Python would try to write at its end, and turn into its exit code."""
        with suppress(AttributeError, OSError, ValueError):
            try:
                self._open_stream().flush()
            except OSError:
                if self._stream in {sys.__stdout__, sys.__stderr__}:
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, self._open_stream().fileno())
                    os.close(nowhere)


@contextmanager
def steady_output() -> Iterator[Output]:
    """Let nothing that a command prints end it; give what became of standard output."""
    before = sys.stdout, sys.stderr
    output, errors = Output(sys.stdout), Output(sys.stderr, tries_again=True)
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", errors)
    try:
        yield output
    finally:
        output.end()
        errors.end()
        sys.stdout, sys.stderr = before
