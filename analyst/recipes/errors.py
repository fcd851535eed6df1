"""The one error of a recipe: which file, which key, what is wrong, what to do."""

from __future__ import annotations

from typing import final

from analyst.errors import AnalystError


@final
class RecipeError(AnalystError):
    """A recipe, or an option that changes one, is not valid."""
