"""Who was let in or out, when and by whom: a file to which lines are only ever added.

One JSON object a line, on the disk before the change that it tells of is in force: a line without
a change is possible, when the command failed after it; a change without a line is not.
"""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, final

from curator.clock import utc_now
from curator.system.bounded_file import bounded_lines
from curator.system.new_file import sync
from curator.system.os_errors import naming

_LONGEST_LINE: Final = 1 << 16


@final
class AccessLog:
    """The lines of one file; a missing file has none."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        """Use the file at `path`."""
        self._path = path
        self._clock = clock

    def append(self, what: str, whom: str, **facts: str | None) -> None:
        """Write one line and sync it; the caller keeps others from writing meanwhile.

        Args:
            what: Was done: add, rotate or revoke.
            whom: To which caller.
            facts: What else is worth knowing; no secret.

        Raises:
            OSError: If it may not be durable; it names the file.
        """
        at = self._clock().isoformat(timespec="seconds")
        line = {"time": at, "what": what, "whom": whom, **facts, **_by_whom()}
        with naming(self._path):
            is_new = not self._path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "r+b", buffering=0) as file:
                torn = _ends_within_a_line(file.fileno())
                data = b"\n" * torn + json.dumps(line).encode() + b"\n"
                if file.write(data) != len(data):
                    raise OSError(None, "it could not be written whole; its disk may be full")
                os.fsync(file.fileno())
            if is_new:
                sync(self._path.parent)

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """Yield every line, the oldest first; None for one that is no JSON object, as one cut."""
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            for line in bounded_lines(self._path, stream, _LONGEST_LINE, "an access log"):
                try:
                    found = json.loads(line)
                except ValueError:
                    found = None
                yield found if isinstance(found, dict) else None


def no_log(*_: str, **__: str | None) -> None:
    """Write nothing, for a table of callers that is nobody's."""


def _by_whom() -> dict[str, str]:
    """Return whose command this is, and where it was typed, as far as the system knows."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container
        user = ""
    found = {"by": user or str(uid), "uid": str(uid), "host": socket.gethostname()}
    typed = {"sudo_user": "SUDO_USER", "ssh_from": "SSH_CONNECTION"}
    return found | {
        name: os.environ[variable].split()[0]
        for name, variable in typed.items()
        if os.environ.get(variable, "").strip()
    }


def _ends_within_a_line(file: int) -> bool:
    """Return whether a write was cut before its end."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"
