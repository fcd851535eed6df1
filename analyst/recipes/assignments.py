"""How a command line sets a recipe: `--set mechanism.clip_norm=0.5` is a dotted key and a value."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from typing import Any

from analyst.errors import RecipeError
from analyst.recipes.keys import all_keys

_BARE = ("training", "session")  # whose options had no prefix in earlier versions


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return what a command line sets, by dotted key.

    Args:
        assignments: Each SECTION.KEY=VALUE; the value is TOML, or text, or numbers with commas
            between them where the key takes a list.

    Raises:
        RecipeError: If one has no '=', or one key is set twice.
    """
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            message = f"'--set {assignment}' has no '='"
            raise RecipeError(message, "Write --set SECTION.KEY=VALUE.")
        if key in overrides:
            message = f"'{key}' is set twice on the command line"
            raise RecipeError(message, "Keep one of the two.")
        is_list = not text.lstrip().startswith("[") and key in _lists()
        overrides[key] = [_value(part) for part in text.split(",")] if is_list else _value(text)
    return overrides


def key_of_option(option: str) -> str | None:
    """Return the key that an option of earlier versions set; None if there was none such."""
    return _old_options().get(option)


@cache
def _old_options() -> dict[str, str]:
    options = {}
    for one in all_keys():
        name = one.key if one.section in _BARE else f"{one.section}-{one.key}"
        options["--" + name.replace("_", "-")] = one.path
    return options


@cache
def _lists() -> frozenset[str]:
    return frozenset(one.path for one in all_keys() if one.type.startswith("list"))


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
