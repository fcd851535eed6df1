"""The recipes of every command that trains, found by name, or by what a file's mechanism is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from analyst.adaptation.recipe import ADAPTATIONS, AdaptationRecipe
from analyst.chains.recipe import CHAINS, is_chain
from analyst.errors import RecipeError
from analyst.evolution.recipe import EVOLUTIONS, EvolutionRecipe
from analyst.recipes.load import GENERATORS, RecipeBook, table_of
from analyst.recipes.mechanisms import ADAPTATION, SCORE, TEACHER, VOTES
from analyst.recipes.schema import Recipe
from analyst.score.recipe import SCORES, ScoreRecipe
from analyst.teacher.recipe import TEACHERS, TeacherRecipe

AnyRecipe: TypeAlias = Recipe | AdaptationRecipe | TeacherRecipe | ScoreRecipe | EvolutionRecipe

BOOKS: Final[Mapping[str, RecipeBook[Any]]] = {
    "train": GENERATORS,
    "adapt train": ADAPTATIONS,
    "teacher train": TEACHERS,
    "score": SCORES,
    "evolve": EVOLUTIONS,
}
"""By the command that takes them."""

_OF_MECHANISMS: Final[Mapping[str, RecipeBook[Any]]] = {
    ADAPTATION: ADAPTATIONS,
    TEACHER: TEACHERS,
    SCORE: SCORES,
    VOTES: EVOLUTIONS,
}


def book_of(name_or_file: str) -> RecipeBook[Any]:
    """Return the recipes that one belongs to; those of `analyst train` where nobody knows it.

    Args:
        name_or_file: A name, or the path of a TOML file, whose stages or mechanism decide.
    """
    if is_chain(name_or_file):
        return CHAINS
    if not name_or_file.endswith(".toml"):
        known = [book for book in BOOKS.values() if name_or_file in book.names()]
        return known[0] if known else GENERATORS
    try:
        mechanism = table_of(GENERATORS.text(name_or_file), name_or_file).get("mechanism")
    except RecipeError:
        return GENERATORS  # what is wrong is said when it is read
    kind = mechanism.get("kind") if isinstance(mechanism, dict) else None
    return _OF_MECHANISMS.get(str(kind), BOOKS["train"])


def load_any(name_or_file: str, overrides: Mapping[str, Any]) -> AnyRecipe:
    """Read a recipe of any command.

    Args:
        name_or_file: As of `book_of`.
        overrides: Values by dotted key; they win over the file.
    """
    recipe: AnyRecipe = book_of(name_or_file).load(name_or_file, overrides)
    return recipe
