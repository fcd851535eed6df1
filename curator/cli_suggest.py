"""What somebody may have meant who mistyped an option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from difflib import get_close_matches


def parse_or_suggest(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> argparse.Namespace:
    """Parse as argparse does, and name the nearest option beside one that it does not know.

    Args:
        parser: Of the whole command line.
        argv: Arguments without the program's name; those of the process if None.

    Returns:
        The arguments; a usage error ends the process with its message.
    """
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        known = _options(parser, arguments)
        typed = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        near = [match for word in typed for match in get_close_matches(word, known, n=1)]
        guess = f" (did you mean {', '.join(near)}?)" if near else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{guess}")
    return arguments


def _options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[str]:
    """Return the options of the command that was chosen."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return _options(action.choices[getattr(arguments, action.dest)], arguments)
    return list(parser._option_string_actions)  # noqa: SLF001
