"""The `curator` command."""

from curator.cli.app import main
from curator.cli.exit_code import ExitCode

__all__ = ["ExitCode", "main"]
