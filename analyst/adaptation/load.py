"""Read an adaptation recipe by name or from a file, and say exactly which key is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from analyst.adaptation.config import AdaptationRecipe, DpSwdFeaturesConfig
from analyst.recipes.errors import RecipeError
from analyst.recipes.load import load_recipe, put_value, recipe_file, table_of
from analyst.recipes.schema import Recipe

_ADAPTER = TypeAdapter(AdaptationRecipe)


def adaptation_recipes() -> list[str]:
    """Return the names of the adaptation recipes that come with this package."""
    entries = (entry.name for entry in resources.files("analyst.adaptation").iterdir())
    return sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml"))


def load_adaptation(name_or_file: str, overrides: Mapping[str, Any]) -> AdaptationRecipe:
    """Read a recipe.

    Args:
        name_or_file: A name from `adaptation_recipes`, or the path of a TOML file.
        overrides: Values by dotted key, such as {"training.steps": 100}; they win over the file.

    Returns:
        The validated recipe.

    Raises:
        RecipeError: If it does not exist, is not TOML, or a key is unknown, missing or wrong.
    """
    origin = f"recipe '{name_or_file}'"
    table = table_of(adaptation_text(name_or_file), origin)
    for key, value in overrides.items():
        put_value(table, key, value)
    return adaptation_from_dict(table, origin=origin)


def adaptation_from_dict(table: Mapping[str, Any], *, origin: str) -> AdaptationRecipe:
    """Validate a recipe.

    Args:
        table: Sections as in the TOML file.
        origin: What to call it in an error.

    Returns:
        The validated recipe.

    Raises:
        RecipeError: If a key is unknown, missing or wrong.
    """
    try:
        return _ADAPTER.validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems]
        message = f"{origin} is not valid:\n  " + "\n  ".join(lines)
        remedy = "The recipes that come with this package state every key."
        raise RecipeError(message, remedy) from None


def adaptation_to_dict(recipe: AdaptationRecipe) -> dict[str, Any]:
    """Return the effective recipe as plain values; `adaptation_from_dict` reads it back."""
    table: dict[str, Any] = json.loads(_ADAPTER.dump_json(recipe))
    return table


def load_either(name_or_file: str, overrides: Mapping[str, Any]) -> Recipe | AdaptationRecipe:
    """Read a recipe of `analyst train`, or of `analyst adapt train` if it is one.

    Args:
        name_or_file: A name of either, or the path of a TOML file, whose mechanism decides.
        overrides: Values by dotted key; they win over the file.
    """
    if _is_adaptation(name_or_file):
        return load_adaptation(name_or_file, overrides)
    return load_recipe(name_or_file, overrides)


def _is_adaptation(name_or_file: str) -> bool:
    if not name_or_file.endswith(".toml"):
        return name_or_file in adaptation_recipes()
    try:
        mechanism = table_of(adaptation_text(name_or_file), name_or_file).get("mechanism")
    except RecipeError:
        return False  # what is wrong is said when it is read as the other kind
    return isinstance(mechanism, dict) and mechanism.get("kind") == DpSwdFeaturesConfig.wire_name


def adaptation_text(name_or_file: str) -> str:
    """Return a recipe's file as it is, comments included.

    Raises:
        RecipeError: If it does not exist or cannot be read.
    """
    if not name_or_file.endswith(".toml"):
        known = adaptation_recipes()
        if name_or_file not in known:
            message = f"there is no adaptation recipe '{name_or_file}'"
            remedy = f"Choose one of {', '.join(known)}; or give the path of a .toml file."
            raise RecipeError(message, remedy)
        return (resources.files("analyst.adaptation") / f"{name_or_file}.toml").read_text("utf-8")
    return recipe_file(Path(name_or_file))
