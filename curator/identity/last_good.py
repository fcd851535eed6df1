"""Who is known now: read again when the file changes, unless something has damaged it."""

from __future__ import annotations

import logging
import threading
from typing import Final, final

from curator.identity.callers_file import CallersDamaged, CallersFile, ListedCaller, Proof, listed
from curator.system.bounded_file import TooLarge

Proofs = dict[tuple[Proof, str], ListedCaller]

_KEPT: Final = (
    "the table of callers cannot be read: put a backup of identity/callers.json back; until then "
    "the last good one is kept, and the curator is not ready"
)
_OF_NO_FILE: Final = (0, 0, 0)
_logger = logging.getLogger(__name__)


@final
class LastGood:
    """The callers of the file when it was last whole."""

    def __init__(self, file: CallersFile) -> None:
        """Follow `file`; nothing is read yet."""
        self._file = file
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = _OF_NO_FILE
        self._damage: Exception | None = None
        self._was_read = False
        self._proofs: Proofs = {}

    def proofs(self) -> Proofs:
        """Return who is known by what; a file that was cut or lost meanwhile changes nothing.

        Raises:
            Exception: What the reader said, if there was no good one since this process began.
        """
        with self._lock:
            stamp = self._file.stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._read(is_lost=stamp is None)
            if self._damage is not None and not self._was_read:
                raise self._damage
            return self._proofs

    def is_intact(self) -> bool:
        """Return whether the file is as it should be."""
        self.proofs()
        return self._damage is None

    def _read(self, *, is_lost: bool) -> None:
        """Take over what the file says now, unless it is damaged; say so when that changes."""
        try:
            entries = self._file.read(must_exist=is_lost and bool(self._proofs))
        except (CallersDamaged, TooLarge, OSError) as damage:
            if self._damage is None:
                _logger.warning(_KEPT)
            self._damage = damage
            return
        if self._damage is not None:
            _logger.info("the table of callers can be read again")
        self._damage, self._was_read = None, True
        self._proofs = {
            (caller.proof, str(entry[caller.proof])): caller
            for entry, caller in ((entry, listed(entry)) for entry in entries)
            if caller.proof is not None
        }
