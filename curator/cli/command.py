"""What every command is given, and how it begins; the folder, and the mistake of a steward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from curator.cli.options import Printing, flag, option
from curator.cli.options import command as command
from curator.cli.screen import Screen
from curator.system.output import Output

if TYPE_CHECKING:
    from curator.folder import CuratorFolder
    from curator.ledger.sql_ledger import SqlLedger

Dir = Annotated[Path, option("The curator's folder.", "DIR", "--dir", needed=True)]
Force = Annotated[bool, flag("--force", "Replace the file in --out.")]
Reason = Annotated[str, option("Kept in the ledger, for the auditor.", "TEXT", needed=True)]


class UsageProblem(ValueError):
    """An argument is not valid."""


class NeedsAttention(RuntimeError):
    """Something was found that somebody should look at; the lines above say what."""


class Task:
    """One call of the program: where it prints, and what it is doing."""

    def __init__(self, output: Output) -> None:
        """Make what the commands are given."""
        self.output = output
        self.screen = Screen()
        self.debug = False
        self.words = ""
        self.is_answered = True  # no longer where the exit code tells of something else
        self.places: dict[str, str] = {}

    def begin(self, context: typer.Context, printing: Printing, *, reads: bool) -> None:
        """Remember how to print; what only reads stops where its output is lost."""
        self.screen = Screen(as_json=printing.as_json, quiet=printing.quiet)
        self.debug = printing.debug
        self.output.stops = reads
        given = context.params
        self.places = {name: str(given[name]) for name in ("out", "folder") if given.get(name)}
        name = " ".join(context.command_path.split()[1:])
        self.words = f"'{name}' of {given.get('name') or given.get('folder') or ''}"


def opened(folder: Path) -> CuratorFolder:
    """Return a curator's folder.

    Raises:
        NotInitialised: If it is not one.
    """
    from curator.folder import CuratorFolder  # cryptography

    found = CuratorFolder(folder)
    found.require()
    return found


def check_out(folder: CuratorFolder, out: Path | None, *, force: bool) -> None:
    """Check where a command is to write, before anything is done; None is no file."""
    from curator.config import load_config
    from curator.system.new_file import check_output

    if out is not None:
        check_output(out, force=force, own=folder.own_places(load_config(folder.config)))


def reader(folder: Path) -> SqlLedger:
    """Open the ledger for reading, also while a curator serves."""
    from curator.administration.open_ledger import open_ledger_reader  # SQLAlchemy
    from curator.config import load_config

    found = opened(folder)
    return open_ledger_reader(found, load_config(found.config))
