"""What every command is given, and how it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from analyst.cli.options import Printing
from analyst.cli.options import command as command
from analyst.output import Output
from analyst.screen import Screen

if TYPE_CHECKING:
    from analyst.cli.access import ConnectionConfig
    from analyst.training.run_source import Curator

Connect = Callable[["ConnectionConfig"], AbstractContextManager["Curator"]]
"""Reaches a curator."""


class Task:
    """One call of the program: where it prints, how it reaches a curator, what it is doing."""

    def __init__(self, output: Output, connect: Connect | None) -> None:
        """Make what the commands are given.

        Args:
            output: Standard output.
            connect: None is the real client.
        """
        self.output = output
        self.screen = Screen()
        self.debug = False
        self.words = ""
        self.out: Path | None = None  # of a run that is trained
        self._again: str | None = None
        self._connect = connect

    def begin(self, context: typer.Context, printing: Printing, *, reads: bool) -> None:
        """Remember how to print; what only reads stops where its output is lost."""
        self.screen = Screen(as_json=printing.as_json, quiet=printing.quiet)
        self.debug = printing.debug
        self.output.stops = reads
        of = context.params.get("run_id") or context.params.get("out")
        name = " ".join(context.command_path.split()[1:])
        self.words = f"'{name}'" + (f" of {of}" if of else "")

    @contextmanager
    def training(self, out: Path, *, resume: bool, again: str | None = None) -> Iterator[None]:
        """Be the only one that trains in a folder.

        Args:
            out: The folder.
            resume: Whether it holds the run already.
            again: The command that goes on with it; None where the user is not told.
        """
        from analyst.training.output_lock import only_trainer

        self.out, self._again = out, again
        with only_trainer(out, is_new=not resume):
            yield

    def say_how_to_resume(self) -> None:
        """Say how to go on with the run that is trained, if it has a checkpoint, or the chain."""
        if self.out is None or self._again is None:
            return
        from analyst.chains.folder import holds_chain
        from analyst.training.checkpoint import checkpoint_store

        if checkpoint_store(self.out).exists() or holds_chain(self.out):
            self.screen.say(f"to go on: analyst {self._again}")

    def connect(self, config: ConnectionConfig) -> AbstractContextManager[Curator]:
        """Reach a curator."""
        if self._connect is not None:
            return self._connect(config)
        from analyst.cli.access import connect  # gRPC: sample and evaluate need none

        return connect(config, self.screen)
