"""How a ledger in PostgreSQL is opened, so that several processes may write it in turn.

Every change first locks the table of entries against other writers, before its snapshot is taken:
the chain has one head, so changes are serial anyway, and waiting is cheaper than starting again.
Serializable isolation stays on underneath; what it refuses is tried again a few times. A process
that stops inside a transaction is thrown out by the server, so that it cannot hold up the others.

A commit that waits for its standby is in both when it is confirmed. One that does not wait may be
lost when the standby takes over; the curators notice that and stop, but what was lost is counted
only by accepting it.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from curator.errors import LedgerUnavailable
from curator.ledger.database_errors import ENCODE
from curator.ledger.transactions import Store

_SETTINGS: Final = (
    ("synchronous_commit", "on"),
    ("lock_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "4000"),
    ("timezone", "UTC"),
    ("client_encoding", "UTF8"),
)
_READER_IDLE: Final = 60_000  # it holds up nobody, and may compute between two pages
_CONNECT_SECONDS: Final = 5
_UP_TO_PASSWORD: Final = re.compile(r"[\w+]+://(?:[^:/]*(?::[^@]*)?@)?")  # as SQLAlchemy divides
_MIGRATION_LOCK: Final = 0x57656972  # any constant that nobody else uses


def database_url(location: str) -> URL:
    """Return the URL of a PostgreSQL database, through psycopg 3.

    Raises:
        LedgerUnavailable: If it is not such a URL; the text repeats nothing of it.
    """
    if "@" in _UP_TO_PASSWORD.sub("", location, count=1):  # what follows may be shown
        msg = f"the ledger's URL has an @ too many: {ENCODE}"
        raise LedgerUnavailable(msg)
    try:
        url = make_url(location)
    except (ArgumentError, ValueError):
        msg = (
            "the ledger's URL cannot be read: write "
            f"postgresql://USER:PASSWORD@HOST:PORT/DATABASE; {ENCODE}"
        )
        raise LedgerUnavailable(msg) from None
    if url.get_backend_name() == "postgres":
        msg = "the ledger's URL begins with postgres:// and must begin with postgresql://"
        raise LedgerUnavailable(msg)
    if url.get_backend_name() != "postgresql":
        msg = "a ledger in a database needs a postgresql:// URL"
        raise LedgerUnavailable(msg)
    return url.set(drivername="postgresql+psycopg")


def writer_engine(url: URL) -> Engine:
    """Return an engine whose transactions are serializable and begin by waiting for their turn."""
    engine = _engine(url, isolation_level="SERIALIZABLE", pool_size=1, max_overflow=0)
    event.listen(engine, "begin", _wait_for_turn)
    return engine


def reader_engine(url: URL) -> Engine:
    """Return an engine whose transactions read one snapshot and cannot write."""
    return _engine(url, isolation_level="REPEATABLE READ", read_only=True)


def maintenance_engine(url: URL) -> Engine:
    """Return an engine for making and upgrading tables: one process at a time."""
    engine = _engine(url, isolation_level="READ COMMITTED", pool_size=1, max_overflow=0)
    event.listen(engine, "begin", _lock_migrations)
    return engine


def refuse_forgetful_servers(connection: Connection) -> None:
    """Check that the server syncs what it says it has committed.

    Raises:
        LedgerUnavailable: If it was told not to.
    """
    for setting in ("fsync", "full_page_writes"):
        if connection.execute(text(f"SHOW {setting}")).scalar_one() != "on":
            msg = f"the PostgreSQL server runs with {setting} off, so a crash may forget charges"
            raise LedgerUnavailable(msg)


def _engine(url: URL, *, read_only: bool = False, **options: Any) -> Engine:
    """Return an engine with the settings that every connection needs.

    Raises:
        LedgerUnavailable: If the driver is not installed.
    """
    asked = url.query.get("options", "")
    settings = [asked if isinstance(asked, str) else " ".join(asked)]
    settings += [f"-c {name}={value}" for name, value in _SETTINGS]
    if read_only:
        settings.append("-c default_transaction_read_only=on")
        settings.append(f"-c idle_in_transaction_session_timeout={_READER_IDLE}")
    if find_spec("psycopg") is None:
        msg = "a ledger in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
        raise LedgerUnavailable(msg)
    arguments = {"options": " ".join(settings), "connect_timeout": _CONNECT_SECONDS}
    return create_engine(url, connect_args=arguments, **options)


def _wait_for_turn(connection: Connection) -> Any:
    connection.exec_driver_sql("LOCK TABLE entries IN SHARE ROW EXCLUSIVE MODE")


def _lock_migrations(connection: Connection) -> Any:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Replication:
    """What a server says of itself; nothing of it depends on what the ledger holds."""

    version: str
    synchronous_commit: str  # of the ledger's own connections
    synchronous_standby_names: str  # empty: no commit waits for a standby
    num_standbys: int  # that receive now
    num_synchronous: int | None  # of these, for whom commits wait; None if the role may not know

    @property
    def is_synchronous(self) -> bool:
        """Whether a commit waits until a standby has it on its disk."""
        waits = self.synchronous_commit in {"on", "remote_apply"}
        return waits and bool(self.synchronous_standby_names.strip())

    @property
    def may_forget(self) -> bool:
        """Whether a standby may take over without the last charges."""
        return self.num_standbys > 0 and not self.is_synchronous


def replication_of(location: str) -> Replication:
    """Ask the server of a ledger.

    Raises:
        LedgerUnavailable: If it does not answer.
    """
    store = Store(reader=reader_engine(database_url(location)))
    try:
        with store.reading() as connection:
            return read_replication(connection)
    finally:
        store.close()


def read_replication(connection: Connection) -> Replication:
    """Ask over a connection of the ledger."""
    settings = {
        name: str(connection.execute(text(f"SHOW {name}")).scalar_one())
        for name in ("synchronous_commit", "synchronous_standby_names")
    }
    states = connection.execute(
        text("SELECT sync_state FROM pg_stat_replication WHERE application_name <> 'pg_basebackup'")
    ).scalars()
    standbys = list(states)  # one for each; without the right to see it, its state is null
    known = [state for state in standbys if state is not None]
    synchronous = sum(state in {"sync", "quorum"} for state in known)
    return Replication(
        version=str(connection.execute(text("SHOW server_version")).scalar_one()),
        num_standbys=len(standbys),
        num_synchronous=synchronous if len(known) == len(standbys) else None,
        **settings,
    )


def warn_of_forgetful_failover(connection: Connection) -> None:
    """Say in the log when the server has standbys for which no commit waits."""
    if read_replication(connection).may_forget:
        _logger.warning(
            "the ledger's database has standbys, and commits do not wait for them: a failover may "
            "lose the last charges; set synchronous_standby_names"
        )
