"""How long this process may serve the runs that it holds."""

from __future__ import annotations

import threading
from typing import Self, final

from curator.config import CuratorConfig
from curator.ledger.lease import Lease
from curator.ledger.problems import HolderLost
from curator.ledger.sql_ledger import SqlLedger


@final
class HolderLease:
    """While the ledger does not go back; with a database, while a lease is renewed, too."""

    def __init__(self, ledger: SqlLedger, lease: Lease | None) -> None:
        """Take the ledger, and the lease if there is one."""
        self._ledger = ledger
        self._lease = lease
        self._stop = threading.Event()

    @classmethod
    def of(cls, ledger: SqlLedger, holder: str, config: CuratorConfig) -> Self:
        """Begin the tenure of one holder.

        Args:
            ledger: Opened for writing.
            holder: This process, in the ledger's words.
            config: Says where the ledger is, and how long a lease lasts.
        """
        if not config.database:
            return cls(ledger, None)
        return cls(ledger, ledger.take_lease(holder, config.ledger.lease_seconds))

    def start(self) -> None:
        """Renew the lease from now on."""
        if self._lease is not None:
            beat = threading.Thread(
                target=self._lease.beat_until, args=(self._stop,), daemon=True, name="lease"
            )
            beat.start()

    def check(self) -> None:
        """Return while nobody else may have taken the runs over, and no charge may be forgotten.

        Raises:
            HolderLost: If somebody may have, or the ledger went back.
        """
        if self._ledger.lost is not None:
            raise HolderLost
        if self._lease is not None:
            self._lease.check()

    def is_lost(self) -> bool:
        """Return whether the tenure has ended."""
        try:
            self.check()
        except HolderLost:
            return True
        return False

    def end(self) -> None:
        """Let others take over at once; call it when nothing will be released any more."""
        self._stop.set()
        if self._lease is not None:
            self._lease.give_up()
