"""How the ledger's SQLite file is opened, and which versions of it are understood."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, insert, select
from sqlalchemy import inspect as inspect_tables
from sqlalchemy.exc import SQLAlchemyError

from curator.errors import LedgerUnavailable
from curator.ledger import schema
from curator.ledger.records import LedgerFromTheFuture


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
    engine = create_engine(f"sqlite:///{path}", pool_size=1, max_overflow=0)
    event.listen(engine, "connect", schema.prepare_connection)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reader_engine(path: Path) -> Engine:
    """Return an engine that cannot write and never makes a file."""
    url = f"sqlite:///file:{quote(str(path.absolute()))}?mode=rw&uri=true"
    engine = create_engine(url)
    event.listen(engine, "connect", schema.prepare_reader)
    event.listen(engine, "begin", _begin)
    return engine


def create_tables(connection: Connection) -> None:
    """Make the tables of an empty ledger; leave an existing one as it is.

    Raises:
        LedgerFromTheFuture: If a newer version wrote it.
    """
    if not inspect_tables(connection).get_table_names():
        schema.metadata.create_all(connection)
        row = {"key": "schema_version", "value": str(schema.SCHEMA_VERSION)}
        connection.execute(insert(schema.meta).values(row))
    refuse_other_versions(connection)


def refuse_other_versions(connection: Connection) -> None:
    """Check the version that the ledger was written with.

    Raises:
        LedgerFromTheFuture: If this version does not know it.
    """
    query = select(schema.meta.c.value).where(schema.meta.c.key == "schema_version")
    written = connection.execute(query).scalar_one()
    if written != str(schema.SCHEMA_VERSION):
        msg = (
            f"the ledger has schema version {written}, this software {schema.SCHEMA_VERSION}. "
            "Install the version that wrote it or a newer one; do not edit the file."
        )
        raise LedgerFromTheFuture(msg)


def _begin_immediate(connection: Connection) -> Any:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin(connection: Connection) -> Any:
    connection.exec_driver_sql("BEGIN")


@contextmanager
def failing_closed(engine: Engine) -> Iterator[None]:
    """Turn every error of the database into `LedgerUnavailable` and forget its connections.

    Raises:
        LedgerUnavailable: If the database or the disk failed.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        engine.dispose()
        msg = "the ledger's database failed"
        raise LedgerUnavailable(msg) from error
