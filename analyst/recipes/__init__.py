"""Recipes: a training run as one TOML file that documents itself."""

from analyst.errors import RecipeError
from analyst.recipes.load import list_recipes, load_recipe, recipe_from_dict, recipe_to_dict
from analyst.recipes.mechanisms import MechanismConfig
from analyst.recipes.schema import (
    OptimizerConfig,
    Recipe,
    SessionConfig,
    TrainingConfig,
)

__all__ = [
    "MechanismConfig",
    "OptimizerConfig",
    "Recipe",
    "SessionConfig",
    "TrainingConfig",
    "list_recipes",
    "load_recipe",
    "recipe_from_dict",
    "recipe_to_dict",
    "RecipeError",
]
