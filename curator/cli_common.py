"""What all commands share: printing, the folder, and the mistake of a steward."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from curator.config import load_config
from curator.folder import CuratorFolder
from curator.system.new_file import check_output

if TYPE_CHECKING:
    from curator.ledger.sql import SqlLedger


class UsageProblem(ValueError):
    """An argument is not valid."""


def say(line: str) -> None:
    """Print one line at once.

    Args:
        line: Without its end.
    """
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """How a command prints: `--json` is one object for programs, `--quiet` leaves words out."""

    as_json: bool
    quiet: bool

    @classmethod
    def of(cls, arguments: Namespace) -> Screen:
        """Return how a command line wants it.

        Args:
            arguments: Of any command.
        """
        return cls(as_json=arguments.json, quiet=arguments.quiet)

    def tell(self, *lines: str) -> None:
        """Say what was done.

        Args:
            lines: For people; nothing is lost without them.
        """
        if not self.quiet:
            self.show(*lines)

    def show(self, *lines: str) -> None:
        """Print what was asked.

        Args:
            lines: For people.
        """
        if not self.as_json:
            for line in lines:
                say(line)

    def answer(self, value: Any) -> None:
        """Print what was asked or done, for programs.

        Args:
            value: Of plain types.
        """
        if self.as_json:
            say(json.dumps(value, indent=1, allow_nan=False, default=str))


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table: lines and colours on a terminal, else plain columns.

    Args:
        heads: One for each column.
        rows: As many cells each.
    """
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


def folder_of(arguments: Namespace) -> CuratorFolder:
    """Return the curator's folder.

    Args:
        arguments: With `dir`.

    Raises:
        NotInitialised: If it is not one.
    """
    folder = CuratorFolder(arguments.dir)
    folder.require()
    return folder


def check_out(arguments: Namespace) -> None:
    """Check where a command is to write, before anything is done; None is no file.

    Args:
        arguments: With `dir`, `out` and `force`.
    """
    if arguments.out is not None:
        folder = folder_of(arguments)
        own = folder.own_places(load_config(folder.config))
        check_output(arguments.out, force=arguments.force, own=own)


def reader_of(arguments: Namespace) -> SqlLedger:
    """Open the ledger for reading, also while a curator serves.

    Args:
        arguments: With `dir`.
    """
    from curator.administration.open_ledger import open_ledger_reader  # SQLAlchemy

    folder = folder_of(arguments)
    return open_ledger_reader(folder, load_config(folder.config))
