"""Read a recipe by name or from a file, apply overrides, and say exactly which key is wrong.

A recipe file is data: nothing in it is ever executed, and an unknown key is an error.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any, Final, Generic, TypeVar, final

from pydantic import TypeAdapter, ValidationError

from analyst.documents import DocumentProblem, read_bounded
from analyst.errors import RecipeError
from analyst.recipes.keys import keys_by_section
from analyst.recipes.mistakes import did_you_mean, explain, keys_like
from analyst.recipes.schema import Recipe

_R = TypeVar("_R")
_OTHER_RATE: Final = {
    "sampling_rate": "expected_batch_size",
    "expected_batch_size": "sampling_rate",
}


@final
class RecipeBook(Generic[_R]):
    """The recipes of one command: those that come with a package, and files."""

    def __init__(self, package: str, shape: type[_R], *, noun: str) -> None:
        """Take where they are and what validates them.

        Args:
            package: Whose `*.toml` have names.
            shape: The shape of a recipe.
            noun: What messages call one.
        """
        self._package = package
        self._adapter = TypeAdapter(shape)
        self._noun = noun

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
        stated = table_of(self.text(name_or_file), origin)
        table = with_values(stated, overrides or {})
        try:
            return self._validated(table)
        except ValidationError as error:
            shown = self._documented(table, name_or_file, stated)
            raise self._problem(error, table, origin, shown) from None

    def from_dict(self, table: Mapping[str, Any], *, origin: str) -> _R:
        """Validate a recipe.

        Raises:
            RecipeError: If a key is unknown, missing or wrong.
        """
        try:
            return self._validated(table)
        except ValidationError as error:
            shown = self._likest(table, self.names()[0])
            raise self._problem(error, table, origin, shown) from None

    def _validated(self, table: Mapping[str, Any]) -> _R:
        return self._adapter.validate_json(json.dumps(table, default=str), strict=True)

    def _problem(
        self, error: ValidationError, table: Mapping[str, Any], origin: str, shown: str
    ) -> RecipeError:
        """Return what is wrong with a recipe; the keys of `shown` are documented."""
        lines = explain(error, table, self._adapter.json_schema())
        return RecipeError(
            f"{origin} is not valid:\n  {lines}",
            f"'analyst recipes show {quote(shown)} --keys' lists every key with its meaning.",
        )

    def _documented(self, table: Mapping[str, Any], name: str, stated: Mapping[str, Any]) -> str:
        """Return a recipe whose keys can be shown: the named one, unless it is wrong as it stands.

        Args:
            table: The recipe as it was changed.
            name: Its name or file.
            stated: The recipe as the file has it.
        """
        if _kind(table) == _kind(stated):
            with suppress(ValidationError):
                self._validated(stated)
                return name
        return self._likest(table, name if name in self.names() else self.names()[0])

    def _likest(self, table: Mapping[str, Any], otherwise: str) -> str:
        """Return a recipe of the package for the same mechanism, if there is one."""
        kind = _kind(table)
        same = (one for one in self.names() if _kind(tomllib.loads(self.text(one))) == kind)
        return next(same, otherwise)

    def to_dict(self, recipe: _R) -> dict[str, Any]:
        """Return the effective recipe as plain values; `from_dict` reads it back."""
        table: dict[str, Any] = json.loads(self._adapter.dump_json(recipe))
        return table

    def stated(self, recipe: _R) -> dict[str, Any]:
        """Return what differs from defaults: a key that came later changes nothing in it."""
        table: dict[str, Any] = json.loads(self._adapter.dump_json(recipe, exclude_defaults=True))
        return table


GENERATORS = RecipeBook("analyst.recipes", Recipe, noun="recipe")
list_recipes, load_recipe, recipe_text = GENERATORS.names, GENERATORS.load, GENERATORS.text
recipe_from_dict, recipe_to_dict = GENERATORS.from_dict, GENERATORS.to_dict


def with_session(recipe: Recipe, overrides: Mapping[str, Any], *, origin: str) -> Recipe:
    """Return `recipe` with other session values.

    Raises:
        RecipeError: If an override is not in `session`, or is wrong.
    """
    fixed = sorted(key for key in overrides if not key.startswith("session."))
    if fixed:
        message = f"a resumed run keeps its recipe; it cannot change {', '.join(fixed)}"
        raise RecipeError(message, "Only 'session' options may differ; or start a new run.")
    table = with_values(recipe_to_dict(recipe), overrides)
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


def _kind(table: Mapping[str, Any]) -> Any:
    mechanism = table.get("mechanism")
    return mechanism.get("kind") if isinstance(mechanism, Mapping) else None


def _instead_of(name: str, names: list[str]) -> str:
    near = " or ".join(f"'{one}'" for one in get_close_matches(name, names, n=2))
    guess = f"Did you mean {near}? " if near else ""
    return f"{guess}'analyst recipes' lists all; a file's path ends in .toml."


def with_values(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's table with other values; of two ways to give a rate the last one stays.

    Raises:
        RecipeError: If a key is not SECTION.KEY.
    """
    changed = deepcopy(dict(table))
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if not dot or not name or "." in name:
            meant = did_you_mean(keys_like(key, keys_by_section()))
            message = f"'{key}' is not a key of a recipe{meant}"
            raise RecipeError(message, "Write SECTION.KEY, such as optimizer.lr=1e-4.")
        entry = changed.setdefault(section, {})
        if not isinstance(entry, dict):
            message = f"'{section}' must be a section"
            raise RecipeError(message, f"Write [{section}] in the recipe.")
        entry.pop(_OTHER_RATE.get(name), None)
        entry[name] = value
    return changed
