"""The public parameters of a run with one critic that DP-SGD trains, and what they add up to."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from curator.divergences.critics import CriticShape
from curator.errors import MalformedRequest
from curator.mechanisms.dp_cgan_pace import PaceRule
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.mechanisms.state_size import networks_bytes
from curator.privacy.records import ImageSpace
from curator.sanitizer.example_sum import MAX_VALUES, ExampleBounds

_MAX_COORDINATES = 1 << 26  # of the padded private batch, or of the images of a step
_MAX_STEP_WORK = 1 << 44  # multiplications of scores: minutes on a few cores
_MAX_UNITS = 1 << 32


class DpCganSpec(Specification):
    """Public parameters of one run.

    A step updates the critic `critic_steps` times, each time with a fresh Poisson sample of
    `sampling_rate`, padded to `capacity` rows, and `num_fakes` of the `num_samples` generated rows,
    in turn. The gradient of each record is clipped to `clip_norm`; their noised sum is divided by
    `expected_batch_size`. `noise_multiplier` is over `max_records_per_unit` times `clip_norm`.
    `max_size` and `max_records_per_unit` repeat, or exceed, what the data set declares: how often
    the sample does not fit is part of the cost.

    With all three of `adaptive_threshold`, `adaptive_decay` and `adaptive_grace`, some steps are
    answered with zeros and no gradient: see `PaceRule`. They are updates like all others.
    """

    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    expected_batch_size: Annotated[float, Field(ge=1e-3, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_fakes: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    noise_multiplier: NoiseMultiplier
    max_size: Annotated[int, Field(ge=1, le=_MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    critic: Literal["mlp", "conv"]
    critic_width: Annotated[int, Field(ge=1, le=1024)]
    critic_seed: Annotated[int, Field(ge=0, lt=2**63)]
    critic_steps: Annotated[int, Field(ge=1, le=1000)]
    critic_learning_rate: Annotated[float, Field(gt=0, le=1)]
    adaptive_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    adaptive_decay: Annotated[float, Field(ge=0, lt=1)] | None = None
    adaptive_grace: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_fakes > self.num_samples:
            msg = "num_fakes must not exceed num_samples"
            raise ValueError(msg)
        if self.max_records_per_unit > self.capacity:
            msg = "max_records_per_unit must not exceed capacity"
            raise ValueError(msg)
        _ = self.bounds  # raises where no lattice point is left
        stated = (self.adaptive_threshold, self.adaptive_decay, self.adaptive_grace)
        if None in stated and stated != (None, None, None):
            msg = "adaptive_threshold, adaptive_decay, adaptive_grace: all of them or none"
            raise ValueError(msg)
        return self

    @property
    def pace_rule(self) -> PaceRule | None:
        """When gradients become rarer, if ever."""
        threshold, decay, grace = self.adaptive_threshold, self.adaptive_decay, self.adaptive_grace
        if threshold is None or decay is None or grace is None:
            return None
        return PaceRule(threshold=threshold, decay=decay, grace=grace)

    @property
    def bounds(self) -> ExampleBounds:
        """How far a unit may move a sum."""
        return ExampleBounds(
            clip_norm=self.clip_norm,
            records_per_unit=self.max_records_per_unit,
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def max_units_per_sample(self) -> int:
        """Units that always fit; of more, the rest is left out."""
        return self.capacity // self.max_records_per_unit

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the critic with Adam's moments."""
        return networks_bytes(dp_critic_shape(self, space), 1)


def dp_critic_shape(spec: DpCganSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of the critic.

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
    shape = CriticShape(
        kind=spec.critic,
        width=spec.critic_width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )
    if shape.num_parameters > MAX_VALUES:
        detail = f"critic_width: at most {MAX_VALUES} parameters for images of this size"
        raise MalformedRequest(detail)
    try:
        spec.bounds.check_room(shape.num_parameters)
    except ValueError as error:
        detail = f"critic_width, noise_multiplier, max_records_per_unit: {error}"
        raise MalformedRequest(detail) from None
    if max(spec.capacity, spec.num_samples) * space.dimension > _MAX_COORDINATES:
        detail = "capacity, num_samples: too many images of this size"
        raise MalformedRequest(detail)
    rows = spec.critic_steps * (spec.capacity + spec.num_fakes) + spec.num_samples
    if rows * shape.multiplications > _MAX_STEP_WORK:
        detail = "critic_steps, capacity, num_fakes: too much work for a step"
        raise MalformedRequest(detail)
    return shape
