"""A location is the path of a SQLite file or the URL of a PostgreSQL schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from curator.ledger.anchor import HeadAnchor
from curator.ledger.sql_ledger import SqlLedger
from tests.fakes.clock import FakeClock


def _is_database(location: str) -> bool:
    return location.startswith("postgresql://")


def open_ledger(location: str, head: Path | None = None) -> SqlLedger:
    anchor = None if head is None else HeadAnchor(head)
    if _is_database(location):
        return SqlLedger.open_database(location, FakeClock(), anchor)
    return SqlLedger.open_writer(Path(location), FakeClock(), anchor)


@contextmanager
def reading(location: str) -> Iterator[SqlLedger]:
    if _is_database(location):
        ledger = SqlLedger.open_database_reader(location, FakeClock())
    else:
        ledger = SqlLedger.open_reader(Path(location), FakeClock())
    try:
        yield ledger
    finally:
        ledger.close()
