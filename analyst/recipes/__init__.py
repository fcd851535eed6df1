"""Recipes: a training run as one TOML file that documents itself."""

from analyst.recipes.adversarial_sinkhorn import AdversarialDpSinkhornConfig
from analyst.recipes.errors import RecipeError
from analyst.recipes.gs_wgan import GsWganMeanConfig
from analyst.recipes.load import list_recipes, load_recipe, recipe_from_dict, recipe_to_dict
from analyst.recipes.mechanisms import (
    DpSinkhornConfig,
    DpSwdConfig,
    MeanEmbeddingConfig,
    MechanismConfig,
)
from analyst.recipes.pate import GPateConfig, PateGanConfig
from analyst.recipes.schema import (
    OptimizerConfig,
    Recipe,
    SessionConfig,
    TrainingConfig,
)

__all__ = [
    "AdversarialDpSinkhornConfig",
    "DpSinkhornConfig",
    "DpSwdConfig",
    "GPateConfig",
    "GsWganMeanConfig",
    "MeanEmbeddingConfig",
    "MechanismConfig",
    "OptimizerConfig",
    "PateGanConfig",
    "Recipe",
    "RecipeError",
    "SessionConfig",
    "TrainingConfig",
    "list_recipes",
    "load_recipe",
    "recipe_from_dict",
    "recipe_to_dict",
]
