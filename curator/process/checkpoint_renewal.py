"""Keeps the ledger's checkpoint near its head while a curator serves, so that a start stays short.

What was written since is verified on the way, in a thread of its own: a ledger that was changed
under a running curator is noticed then, and not at its next start only.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import final

from curator.errors import LedgerUnavailable
from curator.ledger.checkpoint import Checkpoint
from curator.ledger.problems import ChainBroken
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.history import History

_logger = logging.getLogger(__name__)


@final
class Renewal:
    """Verifies the ledger again when a tenth of it is new."""

    def __init__(self, ledger: SqlLedger, path: Path, known: Checkpoint) -> None:
        """Begin with what the start used."""
        self._ledger = ledger
        self._path = path
        self._known = known
        self._thread: threading.Thread | None = None
        self._broken: ChainBroken | None = None

    def look(self) -> None:
        """Begin to verify if it is time to; ask now and then."""
        if self._thread is not None and self._thread.is_alive():
            return
        try:
            is_due = self._known.is_behind(self._ledger.head()[0])
        except LedgerUnavailable:
            return
        if is_due:
            self._thread = threading.Thread(target=self._renew, daemon=True, name="checkpoint")
            self._thread.start()

    def is_broken(self) -> bool:
        """Return whether the ledger was found to be changed by something else."""
        return self._broken is not None

    def check(self) -> None:
        """Return unless the ledger was found to be changed by something else.

        Raises:
            ChainBroken: If it was.
        """
        if self._broken is not None:
            raise self._broken

    def _renew(self) -> None:
        known = Checkpoint(self._path, History())
        try:
            self._ledger.verify_from(known)
        except LedgerUnavailable:
            _logger.warning("the ledger's checkpoint could not be renewed now")
            return
        except ChainBroken as broken:
            self._broken = broken
            return
        self._known = known
