"""How the ledger's SQLite file is opened, and which versions of it are understood."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, select
from sqlalchemy import inspect as inspect_tables

from curator.errors import LedgerUnavailable
from curator.ledger import postgres, rows, schema
from curator.ledger.anchor import HeadAnchor
from curator.ledger.migrations.upgrade import upgrade
from curator.ledger.postgres import warn_of_forgetful_failover
from curator.ledger.problems import LedgerFromTheFuture
from curator.ledger.replicas import settle
from curator.ledger.transactions import Store


def make_private_file(path: Path) -> None:
    """Make the ledger's file if there is none, for its owner only, and its name durable.

    Raises:
        LedgerUnavailable: If it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        msg = f"the ledger {path} cannot be opened for writing"
        raise LedgerUnavailable(msg) from error


def writer_engine(path: Path) -> Engine:
    """Return an engine with one durable connection whose transactions begin by locking."""
    url = URL.create("sqlite", database=str(path))  # a path may hold any sign: ? # %
    engine = create_engine(url, pool_size=1, max_overflow=0)
    event.listen(engine, "connect", schema.prepare_connection)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reader_engine(path: Path) -> Engine:
    """Return an engine that cannot write and never makes a file."""
    name = f"file:{quote(str(path.absolute()))}"
    engine = create_engine(URL.create("sqlite", database=name, query={"mode": "rw", "uri": "true"}))
    event.listen(engine, "connect", schema.prepare_reader)
    event.listen(engine, "begin", _begin)
    return engine


def prepare_file(anchor: HeadAnchor | None, connection: Connection) -> None:
    """Check a ledger that is opened for writing, then make or upgrade its tables.

    Raises:
        LedgerRestored: If it lacks what `anchor` has seen in it; then nothing was changed.
        LedgerFromTheFuture: If a newer version wrote it.
    """
    check_anchor(connection, anchor)  # before an upgrade changes anything
    create_tables(connection)


def prepare_database(anchor: HeadAnchor | None, connection: Connection) -> None:
    """Check the server too, and say in the log what a failover of it may lose.

    Raises:
        LedgerUnavailable: If it does not sync its commits.
        LedgerRestored: As for a file.
    """
    postgres.refuse_forgetful_servers(connection)
    warn_of_forgetful_failover(connection)
    prepare_file(anchor, connection)


def create_tables(connection: Connection) -> None:
    """Make the tables of an empty ledger, upgrade those of an older one.

    Raises:
        LedgerFromTheFuture: If a newer version wrote it.
        LedgerUnavailable: If it could not be upgraded.
    """
    if not inspect_tables(connection).get_table_names():
        schema.metadata.create_all(connection)
        if connection.dialect.name == "postgresql":
            schema.leases.create(connection)
            settle(connection, after=0)
        row = {"key": "schema_version", "value": str(schema.SCHEMA_VERSION)}
        connection.execute(insert(schema.meta).values(row))
    written = _written_version(connection)
    if written.isdecimal() and int(written) < schema.SCHEMA_VERSION:
        upgrade(connection, written)
    refuse_other_versions(connection)


def has_tables(location: str) -> bool:
    """Return whether a PostgreSQL database holds a ledger, of whatever version."""
    store = Store(reader=postgres.reader_engine(postgres.database_url(location)))
    with closing(store), store.reading() as connection:
        return inspect_tables(connection).has_table(schema.meta.name)


def check_anchor(connection: Connection, anchor: HeadAnchor | None) -> None:
    """Check that a ledger of any version has all that its anchor has seen; an empty one has none.

    Raises:
        LedgerRestored: If it has not.
    """

    def digest_of(seq: int) -> str | None:  # asked once the anchor's file is read, never before
        if seq and not inspect_tables(connection).has_table(schema.entries.name):
            return None
        return rows.load_digest(connection, seq)

    if anchor is not None:
        anchor.check(digest_of)


def refuse_other_versions(connection: Connection) -> None:
    """Check the version that the ledger was written with.

    Raises:
        LedgerFromTheFuture: If this version does not know it.
        LedgerUnavailable: If it is older, and only a writer may upgrade it.
    """
    written = _written_version(connection)
    if written.isdecimal() and int(written) < schema.SCHEMA_VERSION:
        msg = f"the ledger has schema version {written}; 'curator serve' upgrades it"
        raise LedgerUnavailable(msg)
    if written != str(schema.SCHEMA_VERSION):
        msg = (
            f"the ledger has schema version {written}, this software {schema.SCHEMA_VERSION}. "
            "Install the version that wrote it or a newer one; do not edit the file."
        )
        raise LedgerFromTheFuture(msg)


def _written_version(connection: Connection) -> str:
    query = select(schema.meta.c.value).where(schema.meta.c.key == "schema_version")
    return str(connection.execute(query).scalar_one())


def _begin_immediate(connection: Connection) -> Any:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> Any:
    connection.exec_driver_sql("BEGIN")
