"""The public parameters of an autoencoder that DP-SGD trains, and of the embedding of its codes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from curator.divergences.autoencoder import AutoencoderShape
from curator.divergences.encoder_features import MAX_HIDDEN, MAX_PIXELS
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.mechanisms.state_size import rows_bytes
from curator.privacy.event import MAX_DIMENSION
from curator.privacy.records import ImageSpace
from curator.sanitizer.example_sum import MAX_VALUES, ExampleBounds

_MAX_COORDINATES = 1 << 26  # of the padded private batch
_MAX_SETUP_WORK = 1 << 43  # values of slopes: a quarter of an hour on a few cores
_MAX_RELEASED_VALUES = 1 << 23
_MAX_UNITS = 1 << 32


class DpMerfAeSpec(Specification):
    """Public parameters of one run.

    The autoencoder is updated `training_steps` times, each time with a fresh Poisson sample of
    `sampling_rate`, padded to `capacity` rows. The gradient of each record is clipped to
    `clip_norm`; their noised sum is divided by `expected_batch_size`. `training_noise_multiplier`
    is over `max_records_per_unit` times `clip_norm`. What is released of the weights is their
    running mean, of which the past keeps `averaging`. `num_features` of the codes are shared
    equally among `bandwidths`; a code is in (-1, 1). `noise_multiplier` is over the sensitivity 1
    of the embedding, and `count_scale` is the constant below its features, so that counts are
    noised too. `max_size` and `max_records_per_unit` repeat, or exceed, what the data set declares.
    """

    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    expected_batch_size: Annotated[float, Field(ge=1e-3, le=MAX_ROWS)]
    max_size: Annotated[int, Field(ge=1, le=_MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    autoencoder: Literal["mlp"]
    hidden_width: Annotated[int, Field(ge=1, le=MAX_HIDDEN)]
    code_width: Annotated[int, Field(ge=1, le=1024)]
    autoencoder_seed: Annotated[int, Field(ge=0, lt=2**63)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    training_noise_multiplier: NoiseMultiplier
    training_steps: Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
    training_learning_rate: Annotated[float, Field(gt=0, le=1)]
    averaging: Annotated[float, Field(ge=0, lt=1)]
    num_features: Annotated[int, Field(ge=2, le=MAX_ROWS)]
    bandwidths: Annotated[
        list[Annotated[float, Field(ge=1e-2, le=1e4)]], Field(min_length=1, max_length=32)
    ]
    feature_seed: Annotated[int, Field(ge=0, lt=2**63)]
    noise_multiplier: NoiseMultiplier
    count_scale: Annotated[float, Field(ge=1e-3, le=10)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_features % (2 * len(self.bandwidths)):
            msg = "num_features must be a multiple of twice the number of bandwidths"
            raise ValueError(msg)
        if self.max_records_per_unit > self.capacity:
            msg = "max_records_per_unit must not exceed capacity"
            raise ValueError(msg)
        _ = self.bounds  # raises where no lattice point is left
        return self

    @property
    def bounds(self) -> ExampleBounds:
        """How far a unit may move a sum of slopes."""
        return ExampleBounds(
            clip_norm=self.clip_norm,
            records_per_unit=self.max_records_per_unit,
            noise_multiplier=self.training_noise_multiplier,
        )

    @property
    def max_units_per_sample(self) -> int:
        """Units that always fit; of more, the rest is left out."""
        return self.capacity // self.max_records_per_unit

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the public frequencies, and of the release."""
        frequencies = (self.code_width + 2) * self.num_features // 2
        released = _num_released_values(self, autoencoder_shape(self, space), space)
        return rows_bytes(1, frequencies + 2 * released)


def autoencoder_shape(spec: DpMerfAeSpec, space: ImageSpace) -> AutoencoderShape:
    """Return the sizes of the autoencoder.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Returns:
        The sizes.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = AutoencoderShape(
        dimension=space.dimension, hidden_width=spec.hidden_width, code_width=spec.code_width
    )
    if shape.num_parameters > MAX_VALUES or space.dimension > MAX_PIXELS:
        detail = f"hidden_width: at most {MAX_VALUES} parameters for images of this size"
        raise MalformedRequest(detail)
    try:
        spec.bounds.check_room(shape.num_parameters)
    except ValueError as error:
        detail = f"hidden_width, training_noise_multiplier, max_records_per_unit: {error}"
        raise MalformedRequest(detail) from None
    if spec.capacity * space.dimension > _MAX_COORDINATES:
        detail = "capacity: too many images of this size"
        raise MalformedRequest(detail)
    if spec.training_steps * spec.capacity * shape.num_parameters > _MAX_SETUP_WORK:
        detail = "training_steps, capacity, hidden_width: too much work for opening a run"
        raise MalformedRequest(detail)
    if _num_released_values(spec, shape, space) > _MAX_RELEASED_VALUES:
        detail = "num_features: too many for the classes of this data set"
        raise MalformedRequest(detail)
    return shape


def _num_released_values(spec: DpMerfAeSpec, shape: AutoencoderShape, space: ImageSpace) -> int:
    rows = space.num_classes + shape.num_parameters // (spec.num_features + 1) + 1
    return rows * (spec.num_features + 1)
