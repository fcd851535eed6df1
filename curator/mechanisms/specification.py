"""What every mechanism's specification shares: a frozen, strict set of public parameters."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from curator.accounting.overflow import overflow_probability
from curator.errors import MalformedRequest
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER, MIN_NOISE_MULTIPLIER, SamplingRate
from curator.sanitizer.lattice import lattice_radius

MAX_ROWS = 1 << 16
MAX_UNITS = 1 << 32


def _leaves_a_lattice(noise_multiplier: float) -> float:
    lattice_radius(noise_multiplier, sensitivity_in_radii=2)
    return noise_multiplier


NoiseMultiplier = Annotated[
    float,
    Field(ge=MIN_NOISE_MULTIPLIER, le=MAX_NOISE_MULTIPLIER),
    AfterValidator(_leaves_a_lattice),
]


class Specification(BaseModel):
    """Public parameters of one mechanism, fixed when a run opens.

    Nothing is converted, no unknown field is accepted, no number may be infinite or NaN, and
    nothing that carries privacy has a default. `noise_multiplier` is noise standard deviation over
    the sensitivity of what is noised, which each specification says.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    noise_multiplier: NoiseMultiplier

    @property
    def rows_per_step(self) -> int | None:
        """Rows that every step must have; None when any number will do."""
        return None

    def kept_bytes(self, space: ImageSpace) -> int:  # noqa: ARG002 - one signature
        """Return the bytes that an open run keeps between its steps, at most.

        Privacy:
            A sum of public numbers.
        """
        return 0

    def journal_bytes(self, space: ImageSpace) -> int:  # noqa: ARG002 - one signature
        """Return the bytes of one step's samples, where they are kept on the disk for a while.

        Privacy:
            A product of public numbers.
        """
        return 0


class SampledSpecification(Specification):
    """With Poisson samples of `sampling_rate`, each padded to `capacity` rows."""

    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @property
    def rate(self) -> SamplingRate:
        """The rate that is drawn and charged."""
        return _rate(self.sampling_rate)


@functools.lru_cache(maxsize=64)  # it is asked for at each step, and takes exact arithmetic
def _rate(sampling_rate: float) -> SamplingRate:
    return SamplingRate.at_least(sampling_rate)


class BoundedSpecification(SampledSpecification):
    """With samples that may not fit their places, which is part of the cost.

    `max_size` units and `max_records_per_unit` repeat, or exceed, what the data set declares.
    """

    max_size: Annotated[int, Field(ge=1, le=MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @model_validator(mode="after")
    def _check_unit_fits(self) -> Self:
        if self.max_records_per_unit > self.capacity:
            msg = "max_records_per_unit must not exceed capacity"
            raise ValueError(msg)
        return self

    @property
    def max_units_per_sample(self) -> int:
        """Units that always fit; of more, the rest is left out."""
        return self.capacity // self.max_records_per_unit

    @property
    def overflow_probability(self) -> float:
        """At least the probability that no further unit fits, for the most units there may be."""
        return overflow_probability(self.max_size, self.rate, self.max_units_per_sample)


def refuse_beyond(limits: Mapping[str, tuple[int, int]]) -> None:
    """Refuse what would need absurd amounts of memory or time.

    Args:
        limits: What is wanted and the most of it, by what to say of more.

    Raises:
        MalformedRequest: If more is wanted.
    """
    for detail, (wanted, most) in limits.items():
        if wanted > most:
            raise MalformedRequest(detail)


def canonical_json(specification: Specification) -> str:
    """Return the one text of a specification: sorted keys, no blanks; what the ledger stores.

    Returns:
        ASCII JSON that parses back to an equal specification.
    """
    fields = specification.model_dump(mode="json")
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_rows(samples: Samples, space: ImageSpace, num_rows: range) -> None:
    """Refuse samples that a run did not declare.

    Raises:
        MalformedRequest: If the number of rows, the image size or a label does not fit.

    Privacy:
        Reads the request and public facts only.
    """
    if samples.weights:
        detail = "weights: this mechanism takes images, and no weights"
        raise MalformedRequest(detail)
    if samples.images_ND.ndim != 2 or samples.images_ND.shape[1] != space.dimension:
        detail = f"images: expected rows of {space.dimension} pixels"
        raise MalformedRequest(detail)
    if samples.images_ND.shape[0] not in num_rows:
        wanted = f"{num_rows[0]}" if len(num_rows) == 1 else f"{num_rows[0]} to {num_rows[-1]}"
        detail = f"images: expected {wanted} rows"
        raise MalformedRequest(detail)
    if samples.labels_N.shape != samples.images_ND.shape[:1]:
        detail = "labels: expected one label per image"
        raise MalformedRequest(detail)
    labels = samples.labels_N.numpy().astype("u8")  # where one below 0 is above all
    if int(labels.max()) >= space.num_classes:
        detail = f"labels: expected class indices below {space.num_classes}"
        raise MalformedRequest(detail)
