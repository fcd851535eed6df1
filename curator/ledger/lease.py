"""Which of several processes is alive, by the database's clock; a file with one writer needs none.

A holder that beats keeps its runs; when its lease has run out, another process may adopt them.
The holder measures the lease too, with a monotonic clock that goes on while it is stopped, from
before it asked, and a little shorter: it stops releasing before anybody can think it dead. Once
run out, a lease is lost for ever, and its process serves under a new name or not at all.

Each beat looks for the head that was noted of the chain, and notes the present one: a process
without work notices too that the database went back, and knows at most a beat less than others.

That alone protects no budget. The ledger's epoch does: whoever adopts a run counts its mark as
answered, and the earlier holder can neither charge nor refund.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from sqlalchemy import Connection, delete, func, insert, literal, select, update

from curator.errors import LedgerUnavailable
from curator.ledger import schema
from curator.ledger.problems import HolderAlive, HolderLost, LedgerRestored
from curator.ledger.rollback_guard import WatchedStore

_SHORTER: Final = 0.9
_BEATS: Final = 4
"""How often a lease is renewed before it would run out."""


@final
class Lease:
    """The right of one holder to go on serving what it holds."""

    def __init__(
        self,
        store: WatchedStore,
        holder: str,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the lease of a holder that has none.

        Raises:
            LedgerUnavailable: If the database does not confirm it.
        """
        self._store = store
        self._holder = holder
        self._seconds = seconds
        self._monotonic = monotonic
        self._until = monotonic() + seconds * _SHORTER
        store.change(self._take)

    def check(self) -> None:
        """Return while the lease is held; call it just before anything is released.

        Raises:
            HolderLost: If it has run out; it will not come back.
        """
        if self._monotonic() >= self._until:
            raise HolderLost

    def renew(self) -> None:
        """Beat once.

        Raises:
            HolderLost: If the lease has run out.
            LedgerRestored: If the database went back; the lease is lost with it.
            LedgerUnavailable: If the database does not confirm it; the lease runs on meanwhile.
        """
        self.check()
        until = self._monotonic() + self._seconds * _SHORTER
        try:
            is_extended = self._store.change(self._extend)
        except LedgerRestored:
            self._until = float("-inf")
            raise
        if not is_extended:
            self._until = float("-inf")
            raise HolderLost
        self.check()  # it may have run out while the database took its time
        self._until = until

    def beat_until(self, stop: threading.Event) -> None:
        """Renew until told to stop or lost, in a thread of its own."""
        while not stop.wait(self._seconds / _BEATS):
            try:
                self.renew()
            except (HolderLost, LedgerRestored):
                return
            except LedgerUnavailable:
                continue  # `check` ends it if this goes on

    def give_up(self) -> None:
        """End the lease, so that others need not wait; nothing is released after that."""
        self._until = float("-inf")
        with suppress(LedgerUnavailable):
            self._store.change(self._end)

    def _take(self, connection: Connection) -> None:
        table = schema.leases
        connection.execute(delete(table).where(table.c.expires_at <= func.clock_timestamp()))
        connection.execute(insert(table).values(holder=self._holder, expires_at=self._expiry()))

    def _extend(self, connection: Connection) -> bool:
        table = schema.leases
        mine = (table.c.holder == self._holder) & (table.c.expires_at > func.clock_timestamp())
        query = (
            update(table).where(mine).values(expires_at=self._expiry()).returning(table.c.holder)
        )
        return connection.execute(query).first() is not None

    def _end(self, connection: Connection) -> None:
        connection.execute(delete(schema.leases).where(schema.leases.c.holder == self._holder))

    def _expiry(self) -> object:
        interval = func.make_interval(0, 0, 0, 0, 0, 0, literal(self._seconds))
        return func.clock_timestamp() + interval


def refuse_while_alive(connection: Connection, holder: str, adopter: str) -> None:
    """Check that a run may be taken from its holder.

    Raises:
        HolderAlive: If the holder's lease has not run out.
    """
    table = schema.leases
    if connection.dialect.name != "postgresql" or holder == adopter:
        return
    alive = (table.c.holder == holder) & (table.c.expires_at > func.clock_timestamp())
    if connection.execute(select(table.c.holder).where(alive)).first() is not None:
        raise HolderAlive
