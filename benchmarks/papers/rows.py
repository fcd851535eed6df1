"""Rows: what was measured, one JSON object a line; the committed ones are in docs/results.

A row is of one cell at one size with one seed, made with certain settings. With other settings in
the catalogue it is stale: it is neither shown nor does it keep the cell from being made.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analyst.evaluation.choices import PAPER_CLASSIFIERS
from benchmarks.papers.catalogue import SIZES, Cell, tables
from benchmarks.rows import ROOT

COMMITTED = ROOT / "docs" / "results" / "papers.jsonl"
NAME = "papers.jsonl"
TRIAL = "try"
"""The table of rows that are of no table: what `try` makes of any recipe."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What making a cell gives.

    `epsilon` is what the curator's ledger charged, None where nothing was served; `true_epsilon`
    what a published algorithm in process really costs, if that is known. `points` are values along
    the way, each with its step and epsilon. `seconds` are of training, by the clock;
    `core_seconds` of all work in all sessions, on however busy a machine.
    """

    values: dict[str, Any]
    seconds: float
    core_seconds: float = 0.0
    epsilon: float | None = None
    true_epsilon: str = ""
    points: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def row_of(cell: Cell, seed: int, measured: Measured) -> dict[str, Any]:
    """Return the row of a cell that was made."""
    return {
        **_of_the_cell(cell, seed),
        **asdict(measured),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": processor(),
    }


def is_of(row: dict[str, Any], cell: Cell) -> bool:
    """Return whether a row is of a cell, as the catalogue has it now."""
    named = (row["table"], row["cell"], row["size"]) == (cell.table, cell.name, cell.size)
    return named and row["settings"] == json.loads(json.dumps(dict(cell.settings)))


def adopted(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a trial as the row of a cell with the same settings, if there is one."""
    if row["table"] != TRIAL:
        return row
    for cell in (cell for table in tables() for size in SIZES for cell in table.cells(size)):
        if _plain(cell.settings) == _plain(row["settings"]) and cell.kind == "trained":
            return {**row, **_of_the_cell(cell, row["seed"])}
    return row


def command_of(cell: Cell, seed: int) -> str:
    """Return the command that makes one cell, with the same words on every machine."""
    words = f"python -m benchmarks.papers make {cell.table} --size {cell.size}"
    return f"{words} --cells '{cell.name}' --seeds {seed} --data FOLDER --out FOLDER"


def _of_the_cell(cell: Cell, seed: int) -> dict[str, Any]:
    return {
        "paper": cell.paper,
        "place": cell.place,
        "table": cell.table,
        "cell": cell.name,
        "method": cell.method,
        "size": cell.size,
        "seed": seed,
        "epsilon_claimed": cell.claimed,
        "delta": cell.settings.get("delta"),
        "published": dict(cell.published),
        "settings": dict(cell.settings),
        "command": command_of(cell, seed),
    }


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with what is usual left out."""
    usual = {"classifiers": list(PAPER_CLASSIFIERS), "calibrated": False}
    return {key: value for key, value in settings.items() if usual.get(key) != value}


def read_rows(paths: Iterable[Path] | None = None) -> list[dict[str, Any]]:
    """Return the rows of files, those that are not there left out; by default the committed."""
    given = (COMMITTED,) if paths is None else paths
    texts = (path.read_text(encoding="utf-8") for path in given if path.exists())
    return [json.loads(line) for text in texts for line in text.splitlines() if line]


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row in one write, so that two processes may add to one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(row).encode() + b"\n")


def processor() -> str:
    """Return what computes here: kind of processor, cores, and the card if there is one."""
    cores = f"{platform.machine()}, {os.cpu_count()} cores"
    import torch  # not for those who only read rows

    return f"{cores}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else cores
