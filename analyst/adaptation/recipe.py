"""The shape of an adaptation recipe, every key described once, and how it is read by name or file.

Nothing that carries privacy has a default. `session` holds what may change when a run is resumed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.recipes.load import RecipeBook
from analyst.recipes.mechanisms import AdaptationMechanism
from analyst.recipes.schema import AboutConfig, OptimizerConfig

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class MoveExtractorConfig:
    """As published: the gradient moves the weights of the extractor that is being trained."""

    kind: Literal["extractor"]
    weight: Annotated[float, Field(gt=0, description="of the curator's gradient")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class MoveSourceConfig:
    """The gradient moves an affine map of the source's images; the extractor sent is never trained.

    Few numbers move, and the target's features stand still meanwhile: the noise averages out.
    """

    kind: Literal["source-map"]
    lr: Annotated[float, Field(gt=0, description="learning rate of the map; a half cosine")]
    lens_seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of the random extractor")]


MoveConfig = MoveExtractorConfig | MoveSourceConfig


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AdaptationTrainingConfig:
    """How long, on what, and from which randomness; fixed for a run."""

    dataset: Annotated[str, Field(min_length=1, description="name of the target at the curator")]
    num_classes: Annotated[int, Field(ge=2, description="classes of the source")]
    steps: Annotated[int, Field(ge=1, description="declared steps: gradients that are asked for")]
    warm_up: Annotated[int, Field(ge=0, description="updates on the source alone, before the rest")]
    updates_per_step: Annotated[
        int, Field(ge=1, description="updates for each step; all but the last on the source alone")
    ]
    source_batch: Annotated[int, Field(ge=1, description="source images of an update")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of weights and batches")]
    ema_decay: Annotated[
        float, Field(ge=0, lt=1, description="decay of the averaged weights; 0 keeps the last")
    ] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AdaptationSessionConfig:
    """What may differ from one session to the next without changing the result."""

    checkpoint_every: Annotated[int, Field(ge=1, description="steps between checkpoints")] = 200
    metrics_every: Annotated[int, Field(ge=1, description="steps between metric lines")] = 20
    retry_for_s: Annotated[
        float, Field(ge=0, description="seconds to wait for a curator that does not answer")
    ] = 300.0


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AdaptationRecipe:
    """One adaptation: a classifier of labelled public images, moved to a private target."""

    about: AboutConfig
    mechanism: AdaptationMechanism
    move: Annotated[MoveConfig, Field(discriminator="kind")]
    optimizer: OptimizerConfig
    training: AdaptationTrainingConfig
    session: AdaptationSessionConfig = Field(default_factory=AdaptationSessionConfig)

    @model_validator(mode="after")
    def _check(self) -> AdaptationRecipe:
        if self.training.source_batch < self.mechanism.num_samples:
            msg = "training.source_batch must be at least mechanism.num_samples"
            raise ValueError(msg)
        return self

    @property
    def num_updates(self) -> int:
        """Updates of a run in which no step is lost."""
        training = self.training
        return training.warm_up + training.steps * training.updates_per_step


ADAPTATIONS = RecipeBook("analyst.adaptation", AdaptationRecipe, noun="adaptation recipe")
adaptation_recipes, load_adaptation = ADAPTATIONS.names, ADAPTATIONS.load
adaptation_from_dict, adaptation_to_dict = ADAPTATIONS.from_dict, ADAPTATIONS.to_dict
