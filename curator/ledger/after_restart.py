"""After a database's server has started anew, replicas compare before any of them charges.

A failover loses what the old server had not handed on. Which replica misses it cannot be known:
each looks for its own head when it renews its lease. So whoever sees a server that it does not
know appends nothing until all leases of before have been renewed, or have run out: by then every
replica that lives has found its head, or has objected, or has stopped.

A server is told by when it started: another one, or the same one started again, has another time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, final

from sqlalchemy import Connection, delete, func, insert, select

from curator.errors import LedgerUnavailable
from curator.ledger.schema import meta

_KEY: Final = "settled"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The last server under which all replicas have compared."""

    server: str = ""
    count: int = 0  # of the servers until then
    after: int = 0  # the last entry that it had from the server before


@final
class Settling:
    """Of one process; it begins to wait when it first sees a server."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Wait so long, by a clock that never goes back."""
        self._seconds = seconds
        self._monotonic = monotonic
        self._server = ""
        self._since = 0.0

    def check(self, connection: Connection, before: int, *, is_appended: bool) -> None:
        """Look at the server, and say that all have compared when it is time.

        Args:
            connection: In the transaction of a change.
            before: The last entry before the change: what it appends comes on top.
            is_appended: Whether the change appends an entry.

        Raises:
            LedgerUnavailable: If it does, too early; the change is rolled back.
        """
        server = _server(connection)
        if load_settled(connection).server == server:
            return
        if self._server != server:
            self._server, self._since = server, self._monotonic()
        left = self._since + self._seconds - self._monotonic()
        if left <= 0:
            settle(connection, before)
        elif is_appended:
            msg = (
                "the database's server was started anew, so the curators of this ledger compare "
                f"what they know of it before any of them charges: {left:.0f} seconds to go"
            )
            raise LedgerUnavailable(msg)


def load_settled(connection: Connection) -> Settled:
    """Return the server under which all have compared."""
    text = connection.execute(select(meta.c.value).where(meta.c.key == _KEY)).scalar()
    return Settled(**json.loads(text)) if text else Settled()


def settle(connection: Connection, after: int) -> None:
    """Say that all have compared under the present server; what comes now is on top of it.

    Args:
        connection: In a transaction of PostgreSQL.
        after: The last entry that is from before.
    """
    settled = Settled(
        server=_server(connection),
        count=load_settled(connection).count + 1,
        after=after,
    )
    connection.execute(delete(meta).where(meta.c.key == _KEY))
    connection.execute(insert(meta).values(key=_KEY, value=json.dumps(asdict(settled))))


def _server(connection: Connection) -> str:
    return str(connection.execute(select(func.pg_postmaster_start_time())).scalar_one())
