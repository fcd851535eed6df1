"""The commands about a curator's folder itself: make it, and show the key that it signs with."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from curator.cli.command import Dir, Task, command, opened
from curator.cli.options import argument

if TYPE_CHECKING:
    from curator.folder import CuratorFolder

app = typer.Typer()
key_app = typer.Typer()


@command(app, "init /srv/weir")
def init(
    task: Task,
    *,
    folder: Path = argument("DIR", "The folder to make."),
) -> None:
    """Make a curator's folder, and a ledger; safe to run again.

    If it fails, what it made is removed again, and what was there stays.
    """
    from curator.folder import PARTS, CuratorFolder
    from curator.system.new_file import check_new_folder
    from curator.system.taken_back import taken_back_on_failure

    made = CuratorFolder(folder)
    check_new_folder(folder)
    if made.is_made:  # it may be served meanwhile
        _make(made)
    else:
        with taken_back_on_failure(folder, PARTS):
            _make(made)
    task.screen.tell(
        f"{made.root} is ready; configuration in {made.config}",
        f"next: curator dataset add NAME SOURCE --dir {quote(str(made.root))} "
        "--epsilon E --delta D ...",
    )
    task.screen.answer({"dir": str(made.root), "config": str(made.config)})


def _make(folder: CuratorFolder) -> None:
    """Make what is missing of a folder and of its ledger."""
    from curator.config import load_config
    from curator.folder import initialise

    initialise(folder.root)
    config = load_config(folder.config)
    if config.database:
        from curator.administration.open_ledger import make_database_tables  # SQLAlchemy

        make_database_tables(folder, config)


@command(key_app, "key --dir /srv/weir", reads=True)
def key(task: Task, *, folder: Dir) -> None:
    """Show the fingerprint of the key that signs certificates."""
    from curator.identity.certificates import fingerprint_of

    fingerprint = fingerprint_of(opened(folder).signing_key.public_key())
    task.screen.show(
        f"certificates of this curator are signed by {fingerprint}",
        "an auditor checks with: analyst certificate verify FILE --fingerprint " + fingerprint,
    )
    task.screen.answer({"fingerprint": fingerprint})
