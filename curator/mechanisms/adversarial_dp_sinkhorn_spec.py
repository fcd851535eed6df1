"""The public parameters of an adversarial DP-Sinkhorn run, and what they may add up to."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from curator.divergences.critics import CriticShape
from curator.divergences.feature_extractors import FeatureCost
from curator.divergences.schedule import public_diameter, published
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification
from curator.mechanisms.state_size import (
    LABEL_FLOATS,
    networks_bytes,
    rows_bytes,
    shards_bytes,
)
from curator.privacy.records import ImageSpace
from curator.sanitizer.averaged import MAX_CRITICS, fine_radius

_MAX_COORDINATES = 1 << 24  # of one answer
_MAX_SHARD_BYTES = 1 << 30
_MAX_PARAMETERS = 1 << 27  # of all extractors
_MAX_STEP_WORK = 1 << 41  # multiplications of features and distances
_MAX_PAIRS = 1 << 22  # of an image and a record, of one extractor
HEADS: Final = ("score", "classes")  # of a critic; extractors have none


class AdversarialDpSinkhornSpec(Specification):
    """Public parameters of one run.

    `num_extractors` K shards of `shard_capacity` rows have a feature extractor each. Every step has
    `num_samples` n rows that meet the records and `num_debias` n' <= n more for the self term; it
    updates every extractor `extractor_steps` times, against the generator, and releases the average
    of the K gradients in all rows, each clipped as a whole to `clip_norm` C. The ground cost is on
    [pixels, `label_scale` onehot, `feature_scale` features of length 1], `reg` in its units.
    `noise_multiplier` is over 2 C / K.
    """

    num_extractors: Annotated[int, Field(ge=1, le=MAX_CRITICS)]
    shard_capacity: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_debias: Annotated[int, Field(ge=0, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    noise_multiplier: NoiseMultiplier
    reg: Annotated[float, Field(ge=1e-3, le=1e6)]
    label_scale: Annotated[float, Field(ge=0, le=1e3)]
    feature_scale: Annotated[float, Field(ge=0, le=1e3)]
    extractor: Literal["mlp", "conv"]
    extractor_width: Annotated[int, Field(ge=1, le=1024)]
    extractor_seed: Annotated[int, Field(ge=0, lt=2**63)]
    extractor_steps: Annotated[int, Field(ge=0, le=100)]
    extractor_learning_rate: Annotated[float, Field(gt=0, le=1)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_debias > self.num_samples:
            msg = "num_debias must not exceed num_samples"
            raise ValueError(msg)
        fine_radius(self.noise_multiplier)
        return self

    @property
    def num_rows(self) -> int:
        """Rows of every step: n + n'."""
        return self.num_samples + self.num_debias

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the shards, and of extractors with Adam's moments."""
        shards = shards_bytes(self.num_extractors, self.shard_capacity, space)
        shape = extractor_shape(self, space)
        return shards + networks_bytes(shape, self.num_extractors, without=HEADS)

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.num_rows, space.dimension + LABEL_FLOATS)


def extractor_shape(spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of each extractor.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Returns:
        The sizes; the heads of a critic are not used.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = CriticShape(
        kind=spec.extractor,
        width=spec.extractor_width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )
    num_features = shape.sizes["score"][1]
    pairs = spec.num_samples * max(spec.num_samples, spec.shard_capacity)
    rows = spec.num_rows + spec.shard_capacity
    work = rows * shape.multiplications + 2 * pairs * (space.dimension + num_features)
    limits = {
        "num_samples: too many images of this size": (
            spec.num_rows * space.dimension,
            _MAX_COORDINATES,
        ),
        "num_extractors, shard_capacity: too many images of this size": (
            spec.num_extractors * spec.shard_capacity * space.dimension,
            _MAX_SHARD_BYTES,
        ),
        "num_extractors, extractor_width: too many parameters together": (
            spec.num_extractors * shape.num_parameters,
            _MAX_PARAMETERS,
        ),
        "num_samples, shard_capacity: too many pairs": (pairs, _MAX_PAIRS),
        "num_extractors, extractor_steps: too much work for one step": (
            spec.num_extractors * (spec.extractor_steps + 1) * work,
            _MAX_STEP_WORK,
        ),
    }
    for detail, (wanted, most) in limits.items():
        if wanted > most:
            raise MalformedRequest(detail)
    return shape


def feature_cost(spec: AdversarialDpSinkhornSpec, space: ImageSpace) -> FeatureCost:
    """Return the ground cost with the published schedule of temperatures.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Privacy:
        Every number comes from the specification and the image space.
    """
    plain = public_diameter(space, spec.label_scale)
    diameter = math.hypot(plain, 2 * spec.feature_scale)  # features have length 1
    return FeatureCost(
        label_scale=spec.label_scale,
        feature_scale=spec.feature_scale,
        temperatures=published(diameter, spec.reg).temperatures,
    )
