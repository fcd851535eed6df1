"""The shape of a recipe of `analyst score`, every key described once.

Nothing that carries privacy has a default.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from analyst.recipes.load import RecipeBook
from analyst.recipes.mechanisms import ScoreMechanism
from analyst.recipes.schema import AboutConfig
from analyst.teacher.recipe import SourceConfig

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ScoreTrainingConfig:
    """Which data set, and what each classifier learns on."""

    dataset: Annotated[str, Field(min_length=1, description="name of the data set at the curator")]
    steps: Annotated[
        int, Field(ge=1, description="candidates that 'analyst plan' prices; a run has those named")
    ]
    num_images: Annotated[int, Field(ge=2, description="images that a run is asked for")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="of samples, weights and batches")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ScoreRecipe:
    """How candidates are told apart."""

    about: AboutConfig
    mechanism: ScoreMechanism
    source: SourceConfig
    training: ScoreTrainingConfig


SCORES = RecipeBook("analyst.score", ScoreRecipe, noun="recipe of scores")
