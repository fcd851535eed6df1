"""What a call asks of a database, counted: statements, and for SQLite the steps of its machine.

The steps are those of SQLite's bytecode, of which every row that is looked at takes a few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event

from curator.ledger.sql_ledger import SqlLedger


@dataclass
class Work:
    """Of one call."""

    statements: list[str] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)
    steps: int = 0


def work_of(ledger: SqlLedger, call: Callable[[], object]) -> Work:
    """Count what a call asks of the database."""
    with counting(ledger) as work:
        call()
    return work


@contextmanager
def counting(ledger: SqlLedger) -> Iterator[Work]:
    work = Work()

    def started(*seen: Any) -> None:
        connection, _, statement, parameters = seen[:4]
        work.statements.append(statement)
        work.parameters.append(parameters)
        if connection.dialect.name == "sqlite":
            connection.connection.dbapi_connection.set_progress_handler(stepped, 1)

    def stepped() -> int:
        work.steps += 1
        return 0

    engines = [
        engine for engine in (ledger._store._store._reader, ledger._store._store._writer) if engine
    ]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", started)
    try:
        yield work
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", started)
            with engine.connect() as connection:
                driver: Any = connection.connection.dbapi_connection
                if connection.dialect.name == "sqlite":
                    driver.set_progress_handler(None, 0)


def read_whole(plan: str) -> list[str]:
    """Return the tables that a plan of PostgreSQL reads from end to end."""
    return re.findall(r"Seq Scan on (\w+)", plan)
