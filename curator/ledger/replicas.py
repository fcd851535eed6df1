"""After a restart of the database replicas compare what they know before any of them charges.

A failover loses what the old server had not handed on. Which replica misses it cannot be known:
each looks for its own head when it renews its lease. So whoever sees a server that it does not
know appends nothing until all leases of before have been renewed, or have run out: by then every
replica that lives has found its head, or has objected, or has stopped.

A server is told by when it started: another one, or the same one started again, has another time.

Each replica keeps a head of its own, so after a failover only the one that wrote last may know
that something is missing. It says so here, once, with all that it knows; no replica writes beside
an objection, and accepting the ledger as it is counts every objector's loss.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, final

from sqlalchemy import Connection, delete, func, insert, select

from curator.errors import LedgerUnavailable
from curator.ledger.anchor import HOW_TO_ACCEPT, Note
from curator.ledger.problems import LedgerRestored
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


_PREFIX = "objection-"
_KEY_LENGTH = 32
_OURS = meta.c.key.startswith(_PREFIX, autoescape=True)


def insert_objection(connection: Connection, note: Note) -> None:
    """Say that this chain lacks what `note` knows."""
    key = f"{_PREFIX}{note.head[1]}"[:_KEY_LENGTH]
    connection.execute(delete(meta).where(meta.c.key == key))
    connection.execute(insert(meta).values(key=key, value=note.to_text()))


def load_objections(connection: Connection) -> tuple[Note, ...]:
    """Return what all objectors know."""
    query = select(meta.c.value).where(_OURS).order_by(meta.c.key)
    return tuple(Note.from_text(text) for text in connection.execute(query).scalars())


def delete_objections(connection: Connection) -> None:
    """Forget all of them; only for what has counted them."""
    connection.execute(delete(meta).where(_OURS))


def refuse_objections(connection: Connection) -> None:
    """Check that no other replica misses anything.

    Raises:
        LedgerRestored: If one does.
    """
    if connection.execute(select(meta.c.key).where(_OURS).limit(1)).first() is not None:
        msg = (
            "another curator of this ledger knows entries that the database lacks: it went back, "
            "so spent budget may be missing. Put the right database back, or stop all curators "
            f"and count the largest possible loss as spent, for ever: {HOW_TO_ACCEPT}"
        )
        raise LedgerRestored(msg)
