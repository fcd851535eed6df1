"""What a command prints: the answer on standard output, what happens meanwhile on standard error.

With `--json` the answer is one JSON value and nothing else; with `--quiet` only the answer and
problems are printed. Tables have lines and colours where a terminal shows them, else plain columns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """How to print."""

    as_json: bool = False
    quiet: bool = False

    def say(self, text: str) -> None:
        """Say what happens, unless nobody wants to know."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say a problem."""
        sys.stderr.write(text + "\n")

    def show(self, text: str) -> None:
        """Print a part of the answer for people; JSON is printed by `answer`, in one piece."""
        if not self.as_json:
            sys.stdout.write(text + "\n")

    def answer(self, value: Any) -> None:
        """Print the answer for programs."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, indent=1, allow_nan=False, default=str) + "\n")


def table_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table: numbers to the right, as wide as it needs to be."""
    if sys.stdout.isatty():
        return _rich_table(heads, rows)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in (heads, *rows)
    ]
    return "\n".join(lines)


def _rich_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
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
    return capture.get().strip("\n")
