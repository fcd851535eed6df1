"""The shape of a recipe of `analyst evolve`, every key described once.

Nothing that carries privacy has a default. `session` holds what may change when a run is resumed.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.adaptation.recipe import AdaptationSessionConfig
from analyst.recipes.load import RecipeBook
from analyst.recipes.mechanisms import VotesMechanism
from analyst.recipes.schema import AboutConfig

FONTS: Final = "fonts"
"""The proposer that draws the names of classes."""

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ProposerConfig:
    """What makes candidates."""

    source: Annotated[
        str, Field(min_length=1, description="'fonts', or MODULE:CLASS of your own (--propose)")
    ] = FONTS
    fonts: Annotated[
        str, Field(description="folder of fonts (--fonts); empty for those that are installed")
    ] = ""


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ChoiceConfig:
    """Which candidates go on, and how far those that follow are from them."""

    threshold: Annotated[
        float, Field(ge=0, description="votes below it count as none, in noise stds (H)")
    ]
    lookahead: Annotated[
        int, Field(ge=0, le=64, description="variations whose mean stands for a candidate; 0: none")
    ]
    keep: Annotated[
        float, Field(ge=0, lt=1, description="share of the next candidates that are not varied")
    ]
    first_degree: Annotated[
        float, Field(gt=0, le=1, description="of variations after the first vote")
    ]
    last_degree: Annotated[
        float, Field(gt=0, le=1, description="of those before the last vote; geometric between")
    ]
    sample_degree: Annotated[
        float, Field(ge=0, le=1, description="of variations that 'analyst sample' makes")
    ]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class EvolutionTrainingConfig:
    """How long, and from which randomness; fixed for a run."""

    dataset: Annotated[str, Field(min_length=1, description="name of the data set at the curator")]
    steps: Annotated[int, Field(ge=1, description="declared steps: votes that are asked for")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="of candidates and of choices")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class EvolutionRecipe:
    """One evolution."""

    about: AboutConfig
    mechanism: VotesMechanism
    choice: ChoiceConfig
    training: EvolutionTrainingConfig
    proposer: ProposerConfig = Field(default_factory=ProposerConfig)
    session: AdaptationSessionConfig = Field(default_factory=AdaptationSessionConfig)

    @model_validator(mode="after")
    def _check(self) -> EvolutionRecipe:
        in_pixels = self.mechanism.features == "pixels"
        wanted = 1 if in_pixels else max(1, self.choice.lookahead)
        if self.mechanism.images_per_candidate != wanted:
            msg = (
                f"mechanism.images_per_candidate must be {wanted}: the mean of pixels is made "
                "here, that of other features at the curator, of choice.lookahead images"
            )
            raise ValueError(msg)
        return self


EVOLUTIONS = RecipeBook("analyst.evolution", EvolutionRecipe, noun="recipe of votes")
