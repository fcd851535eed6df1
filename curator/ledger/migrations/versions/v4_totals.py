"""Running totals in a table of their own, and the indexes by which pages of runs are read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op  # type: ignore[import-not-found, unused-ignore]

revision = "4"
down_revision = "3"
branch_labels = None
depends_on = None

_ORDERS = 23
_Sum = list[list[int]]


def upgrade() -> None:
    """Make the table and count what there is; opening verifies it against the entries."""
    table = op.create_table(
        "totals",
        sa.Column("dataset", sa.String(200), sa.ForeignKey("datasets.name"), primary_key=True),
        sa.Column("analyst", sa.String(200), primary_key=True),
        sa.Column("spent", sa.Text, nullable=False),
        sa.Column("reserved", sa.Text, nullable=False),
        sa.Column("num_closed", sa.Integer, nullable=False),
    )
    if rows := _counted():
        op.bulk_insert(table, rows)
    for name in ("dataset", "analyst", "status"):
        op.create_index(f"ix_runs_{name}_position", "runs", [name, "position"])
    for name in ("dataset", "analyst"):
        op.drop_index(f"ix_runs_{name}", "runs")


def _counted() -> list[dict[str, object]]:
    spent: dict[tuple[str, str], _Sum] = defaultdict(_nothing)
    reserved: dict[tuple[str, str], _Sum] = defaultdict(_nothing)
    num_closed: dict[tuple[str, str], int] = defaultdict(int)
    for dataset, analyst, is_open, setup, step, runs, begun, used, declared in _groups():
        for whose in {"", analyst}:
            key = dataset, whose
            _add(spent[key], ((setup, begun), (step, used)))
            whole = ((setup, runs), (step, declared)) if is_open else ((setup, begun), (step, used))
            _add(reserved[key], whole)
            num_closed[key] += 0 if is_open else runs
    return [
        {
            "dataset": key[0],
            "analyst": key[1],
            "spent": _text(spent[key]),
            "reserved": _text(reserved[key]),
            "num_closed": num_closed[key],
        }
        for key in num_closed
    ]


def _groups() -> Iterable[Any]:
    """Return runs of the same costs together, so that costs are read once for all of them."""
    query = (
        "SELECT dataset, analyst, status = 'open', setup, step, count(*), "
        "sum(CASE WHEN setup_begun THEN 1 ELSE 0 END), sum(used), sum(num_steps) "
        "FROM runs GROUP BY dataset, analyst, status, setup, step"
    )
    found: Iterable[Any] = op.get_bind().execute(sa.text(query))
    return found


def _nothing() -> _Sum:
    """Return the sum of no costs: units and infinities, by order."""
    return [[0] * _ORDERS, [0] * _ORDERS]


def _add(total: _Sum, uses: Iterable[tuple[str, int]]) -> None:
    for text, times in uses:
        for order, item in enumerate(json.loads(text)):
            units, infinite = (0, 1) if item == "inf" else (int(item), 0)
            total[0][order] += units * int(times)
            total[1][order] += infinite * int(times)


def _text(total: _Sum) -> str:
    numbers = total[0] + (total[1] if any(total[1]) else [])
    return json.dumps([str(number) for number in numbers])
