"""The steward's command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum

from curator.cli_commands import COMMANDS
from curator.cli_common import UsageProblem
from curator.cli_parser import build_parser
from curator.config import ConfigError
from curator.data.errors import SourceError
from curator.errors import CuratorError, LedgerUnavailable
from curator.folder import NotInitialised
from curator.identity.listen import PortUnavailable
from curator.identity.tokens import CallerExists, NoSuchCaller
from curator.ledger.problems import (
    ChainBroken,
    LedgerConflict,
    LedgerFromTheFuture,
    LedgerLocked,
    LedgerRestored,
)


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    FAILED = 1
    USAGE = 2
    LEDGER = 3
    PORT = 4


_LEDGER_PROBLEMS = (ChainBroken, LedgerFromTheFuture, LedgerLocked, LedgerRestored)
_PROBLEMS = (
    ConfigError,
    SourceError,
    NotInitialised,
    CallerExists,
    NoSuchCaller,
    LedgerConflict,
    UsageProblem,
    CuratorError,
    OSError,
    RuntimeError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; the process's by default.

    Returns:
        An exit code.
    """
    arguments = build_parser().parse_args(argv)
    try:
        COMMANDS[arguments.command](arguments)
    except _LEDGER_PROBLEMS as problem:
        return _say(problem, ExitCode.LEDGER)
    except PortUnavailable as problem:
        return _say(problem, ExitCode.PORT)
    except _PROBLEMS as problem:
        return _say(problem, ExitCode.FAILED)
    return ExitCode.OK


def _say(problem: Exception, code: ExitCode) -> int:
    text = str(problem)
    if isinstance(problem, CuratorError) and not isinstance(problem, LedgerUnavailable):
        text = f"{problem.public_message} {problem.remedy}"
    sys.stderr.write(f"curator: {text}\n")
    return code


__all__ = ["ExitCode", "main"]

if __name__ == "__main__":
    sys.exit(main())
