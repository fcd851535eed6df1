"""One writer at a time, by a lock that goes with its process, and on the file that was opened.

Connections go on in a file that is gone, so whether a path still names it is looked at.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import final

from curator.errors import LedgerUnavailable
from curator.ledger.problems import LedgerLocked, LedgerRestored


@final
class WriterLock:
    """Held from construction until `release` or the end of the process, however it ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            LedgerLocked: If another process, or another part of this one, holds it.
            LedgerUnavailable: If the file cannot be made or locked.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            msg = f"the lock file {path} cannot be opened"
            raise LedgerUnavailable(msg) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            msg = (
                f"{path} is locked: a curator that is running writes this ledger. "
                "Stop it first; 'curator budget' and 'ledger export' also work while it serves."
            )
            raise LedgerLocked(msg) from error
        except OSError as error:
            os.close(descriptor)
            msg = f"the file system of {path} cannot lock"
            raise LedgerUnavailable(msg) from error
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@final
class FileIdentity:
    """Of one file that is open."""

    def __init__(self, path: Path) -> None:
        """Remember which file `path` names."""
        self._path = path
        self._opened = self._now()

    def check(self) -> None:
        """Check that it still does.

        Raises:
            LedgerRestored: If it names another file, or none.
        """
        if self._now() != self._opened:
            msg = (
                f"the ledger {self._path} was replaced or moved away while a curator wrote it. "
                "Put the right file back and start again"
            )
            raise LedgerRestored(msg)

    def _now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
