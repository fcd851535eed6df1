"""What a command prints: lines for people, one JSON value for programs, tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """How a command prints: `--json` is one object for programs, `--quiet` leaves words out."""

    as_json: bool = False
    quiet: bool = False

    def tell(self, *lines: str) -> None:
        """Say what was done."""
        if not self.quiet:
            self.show(*lines)

    def show(self, *lines: str) -> None:
        """Print what was asked."""
        if not self.as_json:
            for line in lines:
                say(line)

    def answer(self, value: Any) -> None:
        """Print what was asked or done, for programs."""
        if self.as_json:
            say(json.dumps(value, indent=1, allow_nan=False, default=str))


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table: lines and colours on a terminal, else plain columns."""
    if sys.stdout.isatty():
        return _rich_lines(heads, rows)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in (heads, *rows)
    ]


def _rich_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    from rich.box import SIMPLE_HEAD  # here: only a terminal needs it
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row, style="red" if row[-1] == "no" else "")
    console = Console(file=sys.stdout)
    with console.capture() as capture:
        console.print(table)
    return capture.get().strip("\n").split("\n")
