"""The public parameters of a DP-SWD run on features, and what they may add up to."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from curator.divergences.feature_nets import MAX_FEATURES, Architecture, FeatureShape
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.privacy.records import ImageSpace

_MAX_PROJECTIONS = 1 << 16
_MAX_NOISE_VALUES = 1 << 24
_MAX_WORK = 1 << 38  # multiplications for the features of a step: a minute or two on one core
_MAX_UNITS = 1 << 32


class DpSwdFeaturesSpec(Specification):
    """Public parameters of one run.

    A record's row is its `num_features` features by an extractor of the named `architecture`, whose
    weights come with every step, scaled to norm `clip_norm` if it is longer. The features of
    `num_samples` public images are compared with `capacity` slots, the other slots zero. `max_size`
    and `max_records_per_unit` repeat, or exceed, what the data set declares: how often the slots
    are full is part of the cost.
    """

    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_projections: Annotated[int, Field(ge=1, le=_MAX_PROJECTIONS)]
    architecture: Architecture
    num_features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    noise_multiplier: NoiseMultiplier
    max_size: Annotated[int, Field(ge=1, le=_MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_samples > self.capacity:
            msg = "num_samples must not exceed capacity"
            raise ValueError(msg)
        if self.max_records_per_unit > self.capacity:
            msg = "max_records_per_unit must not exceed capacity"
            raise ValueError(msg)
        if self.capacity * self.num_projections > _MAX_NOISE_VALUES:
            msg = "capacity times num_projections must be at most 2^24"
            raise ValueError(msg)
        return self

    @property
    def max_units_per_step(self) -> int:
        """Units that always fit into the slots; of more, the rest is left out."""
        return self.capacity // self.max_records_per_unit


def feature_shape(spec: DpSwdFeaturesSpec, space: ImageSpace) -> FeatureShape:
    """Return the sizes of the extractor.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Returns:
        The sizes.

    Raises:
        MalformedRequest: If it does not fit images of this size, or a step would take absurdly
            long.

    Privacy:
        Reads the request and public facts only.
    """
    try:
        shape = FeatureShape(
            architecture=spec.architecture,
            channels=space.channels,
            height=space.height,
            width=space.width,
            max_level=space.max_level,
            num_features=spec.num_features,
        )
    except ValueError as error:  # its words are about public sizes
        raise MalformedRequest(str(error)) from None
    if spec.capacity * shape.multiplications > _MAX_WORK:
        detail = "capacity, architecture: too much work for one step"
        raise MalformedRequest(detail)
    return shape
