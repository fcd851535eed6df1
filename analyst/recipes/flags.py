"""Command-line options made from the recipe's own fields, so that none can be forgotten.

`--mechanism-clip-norm 0.5`, `--steps 200` and `--set mechanism.clip_norm=0.5` say the same kind of
thing: a dotted key and a value. `training` and `session` keys have no prefix.
"""

from __future__ import annotations

import argparse
import tomllib
from typing import Any

from analyst.errors import RecipeError
from analyst.recipes.keys import RecipeKey, all_keys

_PREFIX = "recipe:"
_BARE = ("training", "session")
_COMMA_SEPARATED = ("mechanism.bandwidths", "mechanism.scattering_bandwidths")


def flag_of(key: str) -> str:
    """Return the option of a key: --optimizer-lr for optimizer.lr, --steps for training.steps."""
    section, _, name = key.partition(".")
    text = name if section in _BARE else f"{section}-{name}"
    return "--" + text.replace("_", "-")


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Add one option per key, in one group per section, and the generic `--set`."""
    parser.add_argument(
        "--set",
        dest="assignments",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="set any key of the recipe; may be repeated",
    )
    groups: dict[str, argparse._ArgumentGroup] = {}
    for key in {one.path: one for one in all_keys()}.values():  # the last that means it
        if key.section not in groups:
            groups[key.section] = parser.add_argument_group(f"recipe: {key.section}")
        groups[key.section].add_argument(
            flag_of(key.path),
            dest=_PREFIX + key.path,
            metavar="VALUE",
            help=_help(key).replace("%", "%%"),
        )


def read_overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that the command line sets, by dotted key.

    Raises:
        RecipeError: If a `--set` has no '=', or one key is set twice.
    """
    overrides: dict[str, Any] = {}
    for assignment in arguments.assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            message = f"'--set {assignment}' has no '='"
            raise RecipeError(message, "Write --set SECTION.KEY=VALUE.")
        _set_once(overrides, key.strip(), text)
    for name, text in vars(arguments).items():
        if name.startswith(_PREFIX) and text is not None:
            _set_once(overrides, name.removeprefix(_PREFIX), text)
    return overrides


def _set_once(overrides: dict[str, Any], key: str, text: str) -> None:
    if key in overrides:
        message = f"'{key}' is set twice on the command line"
        raise RecipeError(message, "Keep one of the two.")
    if key in _COMMA_SEPARATED and not text.lstrip().startswith("["):
        overrides[key] = [_value(part) for part in text.split(",")]
    else:
        overrides[key] = _value(text)


def _value(text: str) -> Any:
    """Read a TOML value, a number such as '.5', or else the text itself."""
    text = text.strip()
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _help(key: RecipeKey) -> str:
    default = "" if key.default in (None, []) else f" [{key.default}]"
    return f"{key.sentence}{default}"
