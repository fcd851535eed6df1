"""Read an adaptation recipe by name or from a file, as those of `analyst train` are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analyst.adaptation.config import AdaptationRecipe
from analyst.errors import RecipeError
from analyst.recipes.load import RecipeBook, load_recipe, table_of
from analyst.recipes.mechanisms import ADAPTATION
from analyst.recipes.schema import Recipe

_BOOK = RecipeBook("analyst.adaptation", AdaptationRecipe, noun="adaptation recipe")
adaptation_recipes, load_adaptation, adaptation_text = _BOOK.names, _BOOK.load, _BOOK.text
adaptation_from_dict, adaptation_to_dict = _BOOK.from_dict, _BOOK.to_dict


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
    return isinstance(mechanism, dict) and mechanism.get("kind") == ADAPTATION
