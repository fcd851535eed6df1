"""The commands of both programs, as the command line knows them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from analyst.cli.app import program as analyst
from curator.cli.app import program as curator

PROGRAMS: dict[str, Any] = {"analyst": analyst(), "curator": curator()}


def leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below one, with its words."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, one in command.commands.items():
        yield from leaves(one, f"{words} {name}")


LEAVES = {words: one for name, top in PROGRAMS.items() for words, one in leaves(top, name)}


def options(command: Any) -> dict[str, Any]:
    """Return a command's options by their spelling, hidden ones too."""
    params = [*command.params, command.get_help_option(command.context_class(command))]
    return {name: one for one in params for name in one.opts if name.startswith("-")}


def understood(argv: Sequence[str], name: str) -> Any:
    """Return the context of a command line, without carrying it out.

    Raises:
        TyperException: If it is not understood.
    """
    context = PROGRAMS[name].make_context(name, list(argv))
    while hasattr(context.command, "commands"):
        rest = [*context._protected_args, *context.args]
        word, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(word, rest, parent=context)
    return context


def typed(line: str) -> Any:
    """Return the context of a whole line, program and all."""
    name, *argv = shlex.split(line)
    return understood(argv, name)
