"""Between rows of runs and frozen values; a question reads the rows that answer it, or a page.

The order of the rows is the order in which runs were opened, as their entries have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, final

from sqlalchemy import Connection, Row, Select, insert, select, update

from curator.accounting.cost import Cost
from curator.ledger import schema
from curator.ledger.datasets_and_runs import RunState, RunStatus

PAGE: Final = 1000
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_RUNS: Final = schema.runs
_NAMES: Final = tuple(item.name for item in fields(RunState))
_COLUMNS: Final = tuple(_RUNS.c[name] for name in _NAMES)
_CHANGING: Final = (
    *("used", "answered", "status", "close_reason", "holder", "epoch"),
    *("setup_begun", "setup_digest", "closed_at"),
)


def load_run(connection: Connection, run_id: str) -> dict[str, RunState]:
    """Return the run by its id, or nothing if there is none."""
    return _by_id(connection, select(*_COLUMNS).where(_RUNS.c.run_id == run_id))


def load_open_runs(connection: Connection, **of: str | None) -> dict[str, RunState]:
    """Return the open runs, in the order in which they were opened.

    Args:
        connection: Reads them.
        of: Values of columns, such as the analyst; None for any.
    """
    query = _of(select(*_COLUMNS), status=str(RunStatus.OPEN), **of)
    return _by_id(connection, query.order_by(_RUNS.c.position))


def load_latest_runs(
    connection: Connection, at_most: int, before: str | None = None, **of: str | None
) -> dict[str, RunState]:
    """Return the runs that were opened last, the latest first.

    Args:
        connection: Reads them.
        at_most: How many.
        before: The id of a run; only those that were opened before it.
        of: Values of columns, such as the analyst; None for any.
    """
    query = _of(select(*_COLUMNS), **of)
    if before is not None:
        place = select(_RUNS.c.position).where(_RUNS.c.run_id == before).scalar_subquery()
        query = query.where(_RUNS.c.position < place)
    return _by_id(connection, query.order_by(_RUNS.c.position.desc()).limit(at_most))


def load_page(connection: Connection, after: int, **of: str | None) -> Sequence[Row[Any]]:
    """Return the next page of all runs in order.

    Args:
        connection: Reads them.
        after: The position of the last row of the page before; 0 at first.
        of: Values of columns, such as the analyst; None for any.
    """
    query = _of(select(*_COLUMNS, _RUNS.c.position), **of).where(_RUNS.c.position > after)
    return connection.execute(query.order_by(_RUNS.c.position).limit(PAGE)).all()


@final
class RunReader:
    """Reads all runs once in order, a page in memory at a time, and takes a digest of closed ones.

    Nothing about a closed run changes, so the digest of those that were closed when a ledger was
    verified says later whether they are shown as they were then.
    """

    def __init__(self, connection: Connection) -> None:
        """Begin before the first run."""
        self._connection = connection
        self._closed = hashlib.sha256()
        self.position = 0

    @property
    def digest(self) -> str:
        """Of the runs that were read and are closed, in order."""
        return self._closed.hexdigest()

    def rows(self, until: int | None = None) -> Iterator[Row[Any]]:
        """Read on, to a position or to the end."""
        while page := load_page(self._connection, self.position):
            for row in page:
                if until is not None and row.position > until:
                    return
                self.position = row.position
                if row.status == RunStatus.CLOSED:
                    self._closed.update(line_of(row))
                yield row


def line_of(row: Row[Any]) -> bytes:
    """Return all of a row as it counts for a digest."""
    return (_ENCODER.encode(tuple(row)) + "\n").encode()


def insert_run(connection: Connection, run: RunState) -> None:
    """Show a new run."""
    connection.execute(insert(_RUNS).values(row_of(run)))


def row_of(run: RunState) -> dict[str, Any]:
    """Return a run as plain values."""
    return {name: getattr(run, name) for name in _NAMES} | {
        "setup": json.dumps(run.setup.to_json()),
        "step": json.dumps(run.step.to_json()),
        "status": str(run.status),
    }


def update_run(connection: Connection, run: RunState) -> None:
    """Show what changed of a run."""
    values = {name: getattr(run, name) for name in _CHANGING} | {"status": str(run.status)}
    connection.execute(update(_RUNS).where(_RUNS.c.run_id == run.run_id).values(values))


def _of(query: Select[Any], **of: str | None) -> Select[Any]:
    for name, wanted in of.items():
        if wanted is not None:
            query = query.where(_RUNS.c[name] == wanted)
    return query


def _by_id(connection: Connection, query: Select[Any]) -> dict[str, RunState]:
    runs = [run_of(row) for row in connection.execute(query)]
    return {run.run_id: run for run in runs}


def run_of(row: Iterable[Any]) -> RunState:
    """Return the run of a row, or of the values of what `row_of` returns."""
    values = dict(zip(_NAMES, row, strict=False))  # a page has the position after them
    values["setup"], values["step"] = cost_of(values["setup"]), cost_of(values["step"])
    values["status"] = RunStatus(values["status"])
    return RunState(**values)


@lru_cache(maxsize=1024)
def cost_of(text: str) -> Cost:
    """Return the cost that a row has as text."""
    return Cost.from_json(json.loads(text))
