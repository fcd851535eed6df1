"""What an analyst asks of the curator, one class per mechanism; the wire names are the field names.

Nothing that carries privacy has a default: a recipe states it or does not load.

Shapes: N rows of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, assert_never

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.generators.labels import balanced_labels
from analyst.recipes.adversarial_sinkhorn import AdversarialDpSinkhornConfig
from analyst.recipes.dp_cgan import DpCganConfig
from analyst.recipes.dp_merf_ae import DpMerfAeConfig
from analyst.recipes.gs_wgan import (
    GsWganDecoupledConfig,
    GsWganMeanConfig,
    GsWganRoundRobinConfig,
)
from analyst.recipes.pate import GPateConfig, PateGanConfig
from analyst.recipes.size_facts import SizeFacts, rate_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class BatchFacts(SizeFacts, Protocol):
    """The public facts of a data set that a batch or a parameter may depend on."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        ...


def _check_one_rate(sampling_rate: float | None, expected_batch_size: float | None) -> None:
    """Check that the rate is given in one way.

    Raises:
        ValueError: If it is given in both, or in none.
    """
    if (sampling_rate is None) == (expected_batch_size is None):
        msg = "give either sampling_rate or expected_batch_size"
        raise ValueError(msg)


def _sampling(config: DpSinkhornConfig | DpSwdConfig, facts: BatchFacts) -> dict[str, Any]:
    """Return the rate, by the nominal size if need be, and the capacity, else the data set's."""
    rate = config.sampling_rate
    if rate is None and config.expected_batch_size is not None:
        rate = rate_of(config.expected_batch_size, facts)
    capacity = facts.capacity if config.capacity is None else config.capacity
    return {"sampling_rate": rate, "capacity": capacity}


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpSinkhornConfig:
    """DP-Sinkhorn: every step compares the batch with a fresh private sample."""

    wire_name: ClassVar[str] = "dp-sinkhorn"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["dp-sinkhorn"]
    sampling_rate: Annotated[
        float | None, Field(gt=0, le=1, description="probability of a record to be in a step")
    ] = None
    expected_batch_size: Annotated[
        float | None, Field(gt=0, description="instead of sampling_rate: that times nominal size")
    ] = None
    capacity: Annotated[
        int | None, Field(ge=1, description="rows of the padded private batch [the data set's]")
    ] = None
    num_samples: Annotated[int, Field(ge=1, description="generated rows that meet the records (n)")]
    num_debias: Annotated[int, Field(ge=0, description="further rows for the self term (n')")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on the norm of the gradient (C)")]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / sensitivity (z)")]
    reg: Annotated[float, Field(gt=0, description="entropic regularisation, in units of cost")]
    l1_weight: Annotated[float, Field(ge=0, description="weight of the L1 part of the cost (m)")]
    label_scale: Annotated[float, Field(ge=0, description="scale of the one-hot labels (alpha)")]
    schedule: Annotated[
        Literal["published", "converged"], Field(description="iterations of the solver")
    ]

    @model_validator(mode="after")
    def _check(self) -> DpSinkhornConfig:
        _check_one_rate(self.sampling_rate, self.expected_batch_size)
        if self.num_debias > self.num_samples:
            msg = "num_debias must not exceed num_samples"
            raise ValueError(msg)
        return self

    def parameters(self, facts: BatchFacts) -> dict[str, Any]:
        """Return what is sent: the rate from the nominal size, the capacity from the data set."""
        return {
            **_sampling(self, facts),
            "num_samples": self.num_samples,
            "num_debias": self.num_debias,
            "clip_norm": self.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "reg": self.reg,
            "l1_weight": self.l1_weight,
            "label_scale": self.label_scale,
            "schedule": self.schedule,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [n + n']: balanced, and the further rows repeat the first n' labels."""
        import torch  # here: recipes are read without it

        labels_N = balanced_labels(self.num_samples, num_classes, generator)
        return torch.cat([labels_N, labels_N[: self.num_debias]])


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class MeanEmbeddingConfig:
    """DP-MERF: one released mean embedding, then every gradient is free."""

    wire_name: ClassVar[str] = "mean-embedding"
    pays_per_step: ClassVar[bool] = False

    kind: Literal["mean-embedding"]
    feature_map: Annotated[
        Literal["rff", "scattering-rff", "mix"],
        Field(description="random Fourier features of pixels, of their scattering, or of both"),
    ] = "rff"
    num_features: Annotated[int, Field(ge=0, description="features of pixels")] = 0
    bandwidths: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(description="kernel scales of pixels in [-1, 1], comma separated"),
    ] = ()
    num_scattering_features: Annotated[int, Field(ge=0, description="features of scattering")] = 0
    scattering_bandwidths: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...],
        Field(description="kernel scales of scattering of pixels in [0, 1], comma separated"),
    ] = ()
    scattering_share: Annotated[
        float, Field(gt=0, lt=1, description="part of the squared norm, in 'mix'")
    ] = 0.6
    feature_seed: Annotated[int, Field(ge=0, description="public seed of the features")]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / sensitivity (z)")]
    count_scale: Annotated[float, Field(gt=0, description="weight of the class-count feature")]
    images_per_class: Annotated[
        int, Field(ge=1, description="generated images per class and step (not sent)")
    ]

    @model_validator(mode="after")
    def _check(self) -> MeanEmbeddingConfig:
        if (self.feature_map != "scattering-rff") != (self.num_features > 0):
            msg = "num_features belongs to the feature maps rff and mix"
            raise ValueError(msg)
        if (self.feature_map != "rff") != (self.num_scattering_features > 0):
            msg = "num_scattering_features belongs to the feature maps scattering-rff and mix"
            raise ValueError(msg)
        return self

    def parameters(self, facts: BatchFacts) -> dict[str, Any]:  # noqa: ARG002 - one signature
        """Return what is sent."""
        return {
            "feature_map": self.feature_map,
            "num_features": self.num_features,
            "bandwidths": list(self.bandwidths),
            "num_scattering_features": self.num_scattering_features,
            "scattering_bandwidths": list(self.scattering_bandwidths),
            "scattering_share": self.scattering_share,
            "feature_seed": self.feature_seed,
            "noise_multiplier": self.noise_multiplier,
            "count_scale": self.count_scale,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [images_per_class * classes], balanced."""
        return balanced_labels(self.images_per_class * num_classes, num_classes, generator)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpSwdConfig:
    """DP-SWD: every step compares noised projections with those of a fresh private sample."""

    wire_name: ClassVar[str] = "dp-swd"
    pays_per_step: ClassVar[bool] = True

    kind: Literal["dp-swd"]
    sampling_rate: Annotated[
        float | None, Field(gt=0, le=1, description="probability of a unit to be in a step")
    ] = None
    expected_batch_size: Annotated[
        float | None, Field(gt=0, description="instead of sampling_rate: that times nominal size")
    ] = None
    capacity: Annotated[
        int | None, Field(ge=1, description="slots of the private sample [the data set's]")
    ] = None
    num_samples: Annotated[int, Field(ge=1, description="generated rows (n); other slots are zero")]
    num_projections: Annotated[int, Field(ge=1, description="fresh random directions a step (k)")]
    clip_norm: Annotated[float, Field(gt=0, description="bound on the norm of each row (R)")]
    label_scale: Annotated[float, Field(ge=0, description="size of the label in a row")]
    origin: Annotated[
        Literal["black", "grey", "white"], Field(description="the image that is a row of zeros")
    ]
    noise_multiplier: Annotated[float, Field(gt=0, description="noise std / R (z)")]
    max_size: Annotated[
        int, Field(ge=1, description="most units, at least what the data set declares")
    ]
    max_records_per_unit: Annotated[
        int, Field(ge=1, description="most records of one unit, likewise; 1 without groups")
    ]

    @model_validator(mode="after")
    def _check(self) -> DpSwdConfig:
        _check_one_rate(self.sampling_rate, self.expected_batch_size)
        return self

    def parameters(self, facts: BatchFacts) -> dict[str, Any]:
        """Return what is sent: the rate from the nominal size, the capacity from the data set."""
        return {
            **_sampling(self, facts),
            "num_samples": self.num_samples,
            "num_projections": self.num_projections,
            "clip_norm": self.clip_norm,
            "label_scale": self.label_scale,
            "origin": self.origin,
            "noise_multiplier": self.noise_multiplier,
            "max_size": self.max_size,
            "max_records_per_unit": self.max_records_per_unit,
        }

    def draw_labels(self, num_classes: int, generator: torch.Generator) -> Tensor:
        """Return labels [n], balanced."""
        return balanced_labels(self.num_samples, num_classes, generator)


MechanismConfig = (
    AdversarialDpSinkhornConfig
    | DpCganConfig
    | DpMerfAeConfig
    | DpSinkhornConfig
    | DpSwdConfig
    | GPateConfig
    | GsWganDecoupledConfig
    | GsWganMeanConfig
    | GsWganRoundRobinConfig
    | MeanEmbeddingConfig
    | PateGanConfig
)


def describe_cost(mechanism: MechanismConfig) -> str:
    """Say in one sentence what this mechanism pays for."""
    match mechanism:
        case DpSinkhornConfig() | DpSwdConfig():
            return "every step reads a fresh private sample and is charged"
        case DpCganConfig(critic_steps=updates):
            return f"every step updates a critic with {updates} fresh samples, and is charged"
        case GsWganMeanConfig():
            return "every step asks all critics, which hold all records, and is charged"
        case GsWganDecoupledConfig():
            return "every step asks one critic, drawn in secret, and is charged"
        case GsWganRoundRobinConfig():
            return "every step asks the next critic; a round of them is charged in advance"
        case AdversarialDpSinkhornConfig() | GPateConfig() | PateGanConfig():
            return "every step asks a network of each shard, which hold all records; it is charged"
        case DpMerfAeConfig() | MeanEmbeddingConfig():
            return "one release is charged when the run opens; its steps are free"
        case _:
            assert_never(mechanism)
