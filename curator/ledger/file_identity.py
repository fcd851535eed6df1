"""Whether a path still names the file that was opened: connections go on in a file that is gone."""

from __future__ import annotations

from pathlib import Path
from typing import final

from curator.ledger.problems import LedgerRestored


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
