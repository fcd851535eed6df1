"""Read a recipe by name or from a file, apply overrides, and say exactly which key is wrong.

A recipe file is data: nothing in it is ever executed, and an unknown key is an error.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar, final

from pydantic import TypeAdapter, ValidationError

from analyst.documents import DocumentProblem, read_bounded
from analyst.errors import RecipeError
from analyst.recipes.schema import Recipe

_R = TypeVar("_R")


@final
class RecipeBook(Generic[_R]):
    """The recipes of one command: those that come with a package, and files."""

    def __init__(self, package: str, shape: type[_R], *, noun: str, remedy: str) -> None:
        """Take where they are and what validates them.

        Args:
            package: Whose `*.toml` have names.
            shape: The shape of a recipe.
            noun: What messages call one.
            remedy: What helps who stated a key wrongly.
        """
        self._package = package
        self._adapter = TypeAdapter(shape)
        self._noun = noun
        self._remedy = remedy

    def names(self) -> list[str]:
        """Return the names of the recipes that come with the package, sorted."""
        entries = (entry.name for entry in resources.files(self._package).iterdir())
        return sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml"))

    def text(self, name_or_file: str) -> str:
        """Return a recipe's file as it is, comments included.

        Raises:
            RecipeError: If it does not exist or cannot be read.
        """
        if name_or_file.endswith(".toml"):
            return _file_text(Path(name_or_file))
        if name_or_file not in self.names():
            message = f"there is no {self._noun} '{name_or_file}'"
            raise RecipeError(message, _instead_of(name_or_file, self.names()))
        return (resources.files(self._package) / f"{name_or_file}.toml").read_text("utf-8")

    def load(self, name_or_file: str, overrides: Mapping[str, Any] | None = None) -> _R:
        """Read a recipe.

        Args:
            name_or_file: One of `names`, or the path of a TOML file.
            overrides: Values by dotted key, such as {"optimizer.lr": 1e-4}; they win over the file.

        Raises:
            RecipeError: If it does not exist, is not TOML, or a key is unknown, missing or wrong.
        """
        origin = f"recipe '{name_or_file}'"
        table = table_of(self.text(name_or_file), origin)
        for key, value in (overrides or {}).items():
            _put_value(table, key, value)
        return self.from_dict(table, origin=origin)

    def from_dict(self, table: Mapping[str, Any], *, origin: str) -> _R:
        """Validate a recipe.

        Raises:
            RecipeError: If a key is unknown, missing or wrong.
        """
        try:
            return self._adapter.validate_json(json.dumps(table, default=str), strict=True)
        except ValidationError as error:
            lines = _explain(error, table)
            message = f"{origin} is not valid:\n  " + "\n  ".join(lines)
            raise RecipeError(message, self._remedy) from None

    def to_dict(self, recipe: _R) -> dict[str, Any]:
        """Return the effective recipe as plain values; `from_dict` reads it back."""
        table: dict[str, Any] = json.loads(self._adapter.dump_json(recipe))
        return table


_BOOK = RecipeBook(
    "analyst.recipes",
    Recipe,
    noun="recipe",
    remedy="'analyst recipes show NAME --keys' lists every key with its meaning.",
)
list_recipes, load_recipe, recipe_text = _BOOK.names, _BOOK.load, _BOOK.text
recipe_from_dict, recipe_to_dict = _BOOK.from_dict, _BOOK.to_dict


def with_session(recipe: Recipe, overrides: Mapping[str, Any], *, origin: str) -> Recipe:
    """Return `recipe` with other session values.

    Raises:
        RecipeError: If an override is not in `session`, or is wrong.
    """
    fixed = sorted(key for key in overrides if not key.startswith("session."))
    if fixed:
        message = f"a resumed run keeps its recipe; it cannot change {', '.join(fixed)}"
        raise RecipeError(message, "Only 'session' options may differ; or start a new run.")
    table = recipe_to_dict(recipe)
    for key, value in overrides.items():
        _put_value(table, key, value)
    return dataclasses.replace(recipe, session=recipe_from_dict(table, origin=origin).session)


def table_of(text: str, origin: str) -> dict[str, Any]:
    """Return a recipe's sections as they are written.

    Raises:
        RecipeError: If it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        message = f"{origin} is not valid TOML: {error}"
        raise RecipeError(message, "Correct the file at that place.") from None


def _file_text(path: Path) -> str:
    """Return what a recipe's file holds.

    Raises:
        RecipeError: If it cannot be read, or is too large for a recipe.
    """
    try:
        return read_bounded(path).decode()
    except (FileNotFoundError, DocumentProblem, UnicodeDecodeError) as error:
        message = f"cannot read recipe {path}: {_why(error)}"
        raise RecipeError(message, "Check the path.") from None


def _why(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case UnicodeDecodeError():
            return "not UTF-8 text"
        case _:
            return str(error)


def _instead_of(name: str, names: list[str]) -> str:
    near = " or ".join(f"'{one}'" for one in get_close_matches(name, names, n=2))
    guess = f"Did you mean {near}? " if near else ""
    return f"{guess}'analyst recipes' lists all; a file's path ends in .toml."


def _put_value(table: dict[str, Any], key: str, value: Any) -> None:
    """Set one key of a recipe's table, in place; of the two ways to give a rate the last one stays.

    Raises:
        RecipeError: If it is not SECTION.KEY.
    """
    section, dot, name = key.partition(".")
    if not dot or not name or "." in name:
        message = f"'{key}' is not a key of a recipe"
        raise RecipeError(message, "Write SECTION.KEY, such as optimizer.lr=1e-4.")
    entry = table.setdefault(section, {})
    if not isinstance(entry, dict):
        message = f"'{section}' must be a section"
        raise RecipeError(message, f"Write [{section}] in the recipe.")
    if name == "sampling_rate":
        entry.pop("expected_batch_size", None)
    if name == "expected_batch_size":
        entry.pop("sampling_rate", None)
    entry[name] = value


def _explain(error: ValidationError, table: Mapping[str, Any]) -> list[str]:
    """Return one line per key; what the branches of a union say is joined by 'or'."""
    kinds = {name: part.get("kind") for name, part in table.items() if isinstance(part, Mapping)}
    problems: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        section, *rest = [str(part) for part in item["loc"]] or [""]
        if rest and rest[0] == kinds.get(section):  # pydantic puts the kind into the path
            del rest[0]
        parts = [section, *rest]
        problems.setdefault(".".join(parts[:2]), []).append(_say(item["type"], item["msg"]))
    return [f"{path}: {' or '.join(texts)}".removeprefix(": ") for path, texts in problems.items()]


def _say(kind: str, message: str) -> str:
    match kind:
        case "unexpected_keyword_argument" | "extra_forbidden":
            return "unknown key"
        case "missing":
            return "is missing"
        case _:
            return message.removeprefix("Value error, ").replace("Input should", "should")
