"""Between rows of runs and frozen values; every question but the last reads as much as it answers.

The order of the rows is the order in which runs were opened, as their entries have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, insert, select, update

from curator.accounting.cost import Cost
from curator.ledger import schema
from curator.ledger.records import RunState, RunStatus

PAGE: Final = 1000
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


def load_page(connection: Connection, after: int, **of: str | None) -> tuple[int, list[RunState]]:
    """Return the next page of all runs in order, and the position to go on after.

    Args:
        connection: Reads them.
        after: The position where the last page ended; 0 at first.
        of: Values of columns, such as the analyst; None for any.
    """
    query = _of(select(*_COLUMNS, _RUNS.c.position), **of).where(_RUNS.c.position > after)
    rows = connection.execute(query.order_by(_RUNS.c.position).limit(PAGE)).all()
    return (rows[-1].position if rows else after), [_run(row) for row in rows]


def all_runs(connection: Connection) -> Iterator[RunState]:
    """Return every run in order, as one snapshot, a page in memory at a time."""
    after = 0
    while True:
        after, page = load_page(connection, after)
        if not page:
            return
        yield from page


def insert_run(connection: Connection, run: RunState) -> None:
    """Show a new run."""
    values = {name: getattr(run, name) for name in _NAMES}
    values["setup"] = json.dumps(run.setup.to_json())
    values["step"] = json.dumps(run.step.to_json())
    values["status"] = str(run.status)
    connection.execute(insert(_RUNS).values(values))


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
    runs = [_run(row) for row in connection.execute(query)]
    return {run.run_id: run for run in runs}


def _run(row: Row[Any]) -> RunState:
    values = dict(zip(_NAMES, row, strict=False))  # a page has the position after them
    values["setup"], values["step"] = cost_of(values["setup"]), cost_of(values["step"])
    values["status"] = RunStatus(values["status"])
    return RunState(**values)


@lru_cache(maxsize=1024)
def cost_of(text: str) -> Cost:
    """Return the cost that a row has as text."""
    return Cost.from_json(json.loads(text))
