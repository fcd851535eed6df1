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
from curator.errors import CuratorError, LedgerUnavailable
from curator.identity.listen import PortUnavailable
from curator.ledger.problems import (
    ChainBroken,
    LedgerFromTheFuture,
    LedgerLocked,
    LedgerRestored,
)
from curator.system.core_dumps import forbid_core_dumps
from curator.system.os_errors import in_words
from curator.system.output import Output, OutputLost, steady_output


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0  # done
    FAILED = 1  # what was asked cannot be done; the message says why
    USAGE = 2  # the command line, as argparse says
    LEDGER = 3  # the ledger is locked, broken, restored from a copy, or of a newer version
    PORT = 4  # a port cannot be bound
    ATTENTION = 5  # 'curator doctor' found something that somebody should look at
    OUTPUT_LOST = 6  # done, and durable; what it printed could not be written
    INTERRUPTED = 130  # Ctrl-C


_READING = frozenset({
    "dataset check", "dataset list", "analyst list", "budget", "plan", "ledger show",
    "ledger verify", "accountant explain", "audit", "doctor", "key", "completion",
})  # fmt: skip
_SERVING = frozenset({"serve", "rehearse"})  # whose ready line is no answer
_WORLD = (OSError, sqlite3.Error, MemoryError)  # a full disk: no fault of this program


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what it did is told by the exit code, whatever becomes of its output.

    Args:
        argv: Arguments without the program's name; the process's by default.

    Returns:
        An exit code.
    """
    with steady_output() as output:
        return _main(argv, output)


def _main(argv: Sequence[str] | None, output: Output) -> int:
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # only a shell that completes asks for it

        argcomplete.autocomplete(parser)
    arguments = parse_or_suggest(parser, argv)
    output.stops = only_reads(arguments)
    forbid_core_dumps()
    try:
        command(arguments.command)(arguments)
        output.flush()
    except KeyboardInterrupt:
        sys.stderr.write("curator: interrupted\n")
        return ExitCode.INTERRUPTED
    except OutputLost as lost:
        if isinstance(lost.__cause__, BrokenPipeError):  # such as 'head', which has seen enough
            return ExitCode.OK
        sys.stderr.write(
            f"curator: standard output cannot be written ({output.why_lost}): give it another "
            "place, then run the same command again\n"
        )
        return ExitCode.FAILED
    except Exception as problem:  # the edge: no traceback without --debug
        if arguments.debug:
            raise
        return _report(problem, _place(arguments, problem))
    return _done(arguments, output)


def _done(arguments: Namespace, output: Output) -> int:
    """Return how a command ended that was carried out; say so where its own words were lost."""
    if output.failure is None or arguments.command in _SERVING:
        return ExitCode.OK
    of = getattr(arguments, "name", None) or getattr(arguments, "dir", None) or ""
    sys.stderr.write(
        f"curator: '{arguments.command}' of {of} is done and stays done; only what it printed was "
        f"lost ({output.why_lost}): do not run it again\n"
    )
    return ExitCode.OUTPUT_LOST


def only_reads(arguments: Namespace) -> bool:
    """Return whether a command leaves nothing behind but what it prints.

    Args:
        arguments: Of its command line.
    """
    match arguments.command:
        case "dataset policy":
            return not (arguments.set or arguments.clear)
        case "dataset add":
            return bool(arguments.dry_run)
        case "ledger export":
            return arguments.out is None
        case name:
            return name in _READING


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
    return type(problem).__module__.startswith(("curator.", "audit."))


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
        from curator.ledger.database_errors import in_database_words  # SQLAlchemy

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
