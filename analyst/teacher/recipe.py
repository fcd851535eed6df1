"""The shape of a teacher's recipe, every key described once, and how it is read by name or file.

Nothing that carries privacy has a default. `session` holds what may change when a run is resumed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from analyst.adaptation.recipe import AdaptationSessionConfig
from analyst.recipes.load import RecipeBook
from analyst.recipes.mechanisms import TeacherMechanism
from analyst.recipes.schema import AboutConfig

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class SourceConfig:
    """How the network and the first map are learned on labelled images that are not private."""

    epochs: Annotated[
        int,
        Field(
            ge=0, description="passes over the images; after 0 a teacher starts from a map of zeros"
        ),
    ]
    batch: Annotated[int, Field(ge=1, description="images of an update")]
    lr: Annotated[float, Field(gt=0, description="of Adam; a half cosine")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DescentConfig:
    """How the map follows the curator's gradients, each scaled to length 1."""

    lr: Annotated[float, Field(gt=0, description="how far the map moves along one gradient")]
    momentum: Annotated[float, Field(ge=0, lt=1, description="what is kept of the last move")]
    decay: Annotated[
        Literal["constant", "cosine"], Field(description="learning rate over the declared steps")
    ] = "constant"


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class TeacherTrainingConfig:
    """How long, and from which randomness; fixed for a run."""

    dataset: Annotated[str, Field(min_length=1, description="name of the data set at the curator")]
    steps: Annotated[int, Field(ge=1, description="declared steps: gradients that are asked for")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of weights and batches")]
    ema_decay: Annotated[
        float, Field(ge=0, lt=1, description="decay of the averaged map; 0 keeps the last")
    ] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class TeacherRecipe:
    """One teacher."""

    about: AboutConfig
    mechanism: TeacherMechanism
    source: SourceConfig
    descent: DescentConfig
    training: TeacherTrainingConfig
    session: AdaptationSessionConfig = Field(default_factory=AdaptationSessionConfig)


TEACHERS = RecipeBook("analyst.teacher", TeacherRecipe, noun="teacher's recipe")
