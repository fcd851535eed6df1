"""What all commands share: printing, the folder, and the mistake of a steward."""

from __future__ import annotations

import sys
from argparse import Namespace

from curator.config import load_config
from curator.folder import CuratorFolder
from curator.ledger.sql import SqlLedger
from curator.open_ledger import open_ledger_reader


class UsageProblem(ValueError):
    """An argument is not valid."""


def say(line: str) -> None:
    """Print one line at once.

    Args:
        line: Without its end.
    """
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


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


def reader_of(arguments: Namespace) -> SqlLedger:
    """Open the ledger for reading, also while a curator serves.

    Args:
        arguments: With `dir`.
    """
    folder = folder_of(arguments)
    return open_ledger_reader(folder, load_config(folder.config))
