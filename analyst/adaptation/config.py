"""The shape of an adaptation recipe: frozen, validated, every key described once.

Nothing that carries privacy has a default. `session` holds what may change when a run is resumed.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.recipes.schema import AboutConfig, OptimizerConfig
from analyst.recipes.size_facts import SizeFacts, rate_of

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpSwdFeaturesConfig:
    """DP-SWD on features: public features are drawn to those of a fresh private sample."""

    wire_name: ClassVar[str] = "dp-swd-features"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["dp-swd-features"]
    sampling_rate: Annotated[
        float | None, Field(gt=0, le=1, description="probability of a unit to be in a step")
    ] = None
    expected_batch_size: Annotated[
        float | None, Field(gt=0, description="instead of sampling_rate: that times nominal size")
    ] = None
    capacity: Annotated[
        int | None, Field(ge=1, description="slots of the private sample [the data set's]")
    ] = None
    num_samples: Annotated[int, Field(ge=1, description="public rows (n); other slots are zero")]
    num_projections: Annotated[int, Field(ge=1, description="fresh random directions a step (k)")]
    architecture: Annotated[
        Literal["lenet-features", "mlp-features"], Field(description="layers of the extractor")
    ]
    num_features: Annotated[int, Field(ge=1, description="features of an image (d)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on the norm of features (R)")]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / R (z)")]
    max_size: Annotated[
        int, Field(ge=1, description="most units, at least what the data set declares")
    ]
    max_records_per_unit: Annotated[
        int, Field(ge=1, description="most records of one unit, likewise; 1 without groups")
    ]

    @model_validator(mode="after")
    def _check(self) -> DpSwdFeaturesConfig:
        if (self.sampling_rate is None) == (self.expected_batch_size is None):
            msg = "give either sampling_rate or expected_batch_size"
            raise ValueError(msg)
        return self

    def parameters(self, facts: SizeFacts) -> dict[str, Any]:
        """Return what is sent: the rate from the nominal size, the capacity from the data set."""
        rate = self.sampling_rate
        if rate is None and self.expected_batch_size is not None:
            rate = rate_of(self.expected_batch_size, facts)
        return {
            "sampling_rate": rate,
            "capacity": facts.capacity if self.capacity is None else self.capacity,
            "num_samples": self.num_samples,
            "num_projections": self.num_projections,
            "architecture": self.architecture,
            "num_features": self.num_features,
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "max_size": self.max_size,
            "max_records_per_unit": self.max_records_per_unit,
        }


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
    """What may differ from one sitting to the next without changing the result."""

    checkpoint_every: Annotated[int, Field(ge=1, description="steps between checkpoints")] = 200
    metrics_every: Annotated[int, Field(ge=1, description="steps between metric lines")] = 20
    retry_for_s: Annotated[
        float, Field(ge=0, description="seconds to wait for a curator that does not answer")
    ] = 300.0


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class AdaptationRecipe:
    """One adaptation: a classifier of labelled public images, moved to a private target."""

    about: AboutConfig
    mechanism: DpSwdFeaturesConfig
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
