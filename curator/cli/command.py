"""What every command is given, and how it begins; the folder, and the mistake of a steward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curator.cli.exit_code import ExitCode
from curator.cli.options import Body, Command, Printing, add_command, filled, flag, made, option
from curator.cli.screen import Screen
from curator.system.output import Output

if TYPE_CHECKING:
    from curator.folder import CuratorFolder
    from curator.ledger.sql import SqlLedger

Dir = Annotated[Path, option("The curator's folder.", "DIR", "--dir", needed=True)]
Force = Annotated[bool, flag("--force", "Replace the file in --out.")]
Reason = Annotated[str, option("Kept in the ledger, for the auditor.", "TEXT", needed=True)]


class UsageProblem(ValueError):
    """An argument is not valid."""


class Task:
    """One call of the program: where it prints, and what it is doing."""

    def __init__(self, output: Output) -> None:
        """Make what the commands are given.

        Args:
            output: Standard output.
        """
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
        command = " ".join(context.command_path.split()[1:])
        self.words = f"'{command}' of {given.get('name') or given.get('folder') or ''}"


def command(
    app: typer.Typer,
    *examples: str,
    name: str | None = None,
    reads: bool = False,
    kind: type[Command] = Command,
) -> Callable[[Body], Body]:
    """Make a function of a task and of options a command; its docstring is the help.

    Args:
        app: Of the command's group.
        examples: Command lines without the program's name.
        name: The function's if None.
        reads: Whether it leaves nothing behind but what it prints.
        kind: Its class, where it reads its command line in another way.
    """

    def register(body: Body) -> Body:
        def run(context: typer.Context, given: dict[str, Any]) -> ExitCode:
            task: Task = context.obj
            task.begin(context, made(context, Printing, given), reads=reads)
            body(task, **filled(context, body, given))
            return ExitCode.OK

        lines = [f"curator {one}" for one in examples]
        add_command(app, body, run, name=name, kind=kind, examples=lines)
        return body

    return register


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
