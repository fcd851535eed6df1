"""The steward's command line."""

from __future__ import annotations

import os
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Sequence
from enum import IntEnum

from curator.cli_commands import command
from curator.cli_doctor import NeedsAttention
from curator.cli_parser import build_parser
from curator.cli_suggest import parse_or_suggest
from curator.core_dumps import forbid_core_dumps
from curator.errors import CuratorError, LedgerUnavailable
from curator.identity.listen import PortUnavailable
from curator.ledger.problems import (
    ChainBroken,
    LedgerFromTheFuture,
    LedgerLocked,
    LedgerRestored,
)
from curator.os_words import in_words


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0  # done
    FAILED = 1  # what was asked cannot be done; the message says why
    USAGE = 2  # the command line, as argparse says
    LEDGER = 3  # the ledger is locked, broken, restored from a copy, or of a newer version
    PORT = 4  # a port cannot be bound
    ATTENTION = 5  # 'curator doctor' found something that somebody should look at
    INTERRUPTED = 130  # Ctrl-C


_WORLD = (OSError, sqlite3.Error, MemoryError)  # a full disk: no fault of this program


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; the process's by default.

    Returns:
        An exit code.
    """
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # only a shell that completes asks for it

        argcomplete.autocomplete(parser)
    arguments = parse_or_suggest(parser, argv)
    forbid_core_dumps()
    try:
        command(arguments.command)(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("curator: interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # whoever reads has gone, such as 'head'
        sys.stderr.close()
        return ExitCode.OK
    except Exception as problem:  # the edge: no traceback without --debug
        if arguments.debug:
            raise
        return _report(problem, _place(arguments, problem))
    return ExitCode.OK


def _report(problem: Exception, where: str) -> int:
    """Say what went wrong, and return the exit code."""
    match problem:
        case ChainBroken() | LedgerFromTheFuture() | LedgerLocked() | LedgerRestored():
            return _say(problem, ExitCode.LEDGER)
        case PortUnavailable():
            return _say(problem, ExitCode.PORT)
        case NeedsAttention():
            return _say(problem, ExitCode.ATTENTION)
        case _ if isinstance(problem, _WORLD) or _is_ours(problem):
            return _say(problem, ExitCode.FAILED, where)
        case _:
            sys.stderr.write(
                f"curator: a fault of this program: {type(problem).__name__}: {problem}\n"
                "curator: run it again with --debug and report the traceback\n"
            )
            return ExitCode.FAILED


def _is_ours(problem: Exception) -> bool:
    """Return whether this program made the error, and so wrote its text for whoever reads it."""
    return type(problem).__module__.startswith("curator.")


def _place(arguments: Namespace, problem: Exception) -> str:
    """Return what an error of the disk is about where it does not say so itself."""
    names = ("dir",) if isinstance(problem, LedgerUnavailable) else ("out", "dir")
    places = (getattr(arguments, name, None) for name in names)
    return str(next((place for place in places if place is not None), ""))


def _say(problem: Exception, code: ExitCode, where: str = "") -> int:
    text = str(problem)
    cause = in_words(problem, where)
    if isinstance(problem, _WORLD):
        text = cause or text
    elif isinstance(problem, LedgerUnavailable):
        from curator.ledger.database_words import in_database_words  # SQLAlchemy

        cause = cause or in_database_words(problem)
        text = text if cause is None else f"{text}: {cause}"
    if isinstance(problem, CuratorError) and not isinstance(problem, LedgerUnavailable):
        detail = f" ({problem.detail})" if problem.detail else ""  # as the analyst reads it
        text = f"{problem.public_message}{detail} {problem.remedy}"
    sys.stderr.write(f"curator: {text}\n")
    return code


__all__ = ["ExitCode", "main"]

if __name__ == "__main__":
    sys.exit(main())
