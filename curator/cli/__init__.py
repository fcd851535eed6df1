"""The `curator` command."""

from __future__ import annotations

from collections.abc import Sequence

from curator.cli.exit_code import ExitCode

__all__ = ["ExitCode", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from curator.cli.app import main as run  # here: it has the audit's command, made of this room

    return run(argv)
