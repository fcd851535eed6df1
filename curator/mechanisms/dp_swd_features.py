"""DP-SWD on features: public images drawn to a private, unlabelled sample, paid per step.

Statement and proof: dp_swd_features.md. The analyst sends the weights of a feature extractor and
the features of public images. Private features meet fresh random directions in the sanitizer; the
gradient is with respect to the public features only, so that all of it is post-processing. Labels
of records are never read.

Shape legend: N public rows, M slots, P pixels, F features, K directions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.divergences.feature_nets import (
    LARGEST_WEIGHT,
    MAX_FEATURES,
    ROW_RADIUS,
    Architecture,
    FeatureShape,
    feature_rows,
)
from curator.divergences.sliced import clip_rows, clip_rows_gradient, sliced_gradient
from curator.errors import MalformedRequest
from curator.mechanisms.base import Requirements, SampledMechanism
from curator.mechanisms.specification import MAX_ROWS, BoundedSpecification
from curator.mechanisms.uploaded_weights import read_weights
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.post_process import post_process
from curator.sanitizer.projected import RowBounds, release_projections

LARGEST_FEATURE: Final = 1e6
_MAX_PROJECTIONS = 1 << 16
_MAX_NOISE_VALUES = 1 << 24
_MAX_WORK = 1 << 38  # multiplications for the features of a step: a minute or two on one core


class DpSwdFeaturesSpec(BoundedSpecification):
    """Public parameters of one run.

    A record's row is its `num_features` features by an extractor of the named `architecture`, whose
    weights come with every step, scaled to norm `clip_norm` if it is longer. The features of
    `num_samples` public images are compared with `capacity` slots, the other slots zero. `max_size`
    and `max_records_per_unit` repeat, or exceed, what the data set declares: how often the slots
    are full is part of the cost.
    """

    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_projections: Annotated[int, Field(ge=1, le=_MAX_PROJECTIONS)]
    architecture: Architecture
    num_features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_samples > self.capacity:
            msg = "num_samples must not exceed capacity"
            raise ValueError(msg)
        if self.capacity * self.num_projections > _MAX_NOISE_VALUES:
            msg = "capacity times num_projections must be at most 2^24"
            raise ValueError(msg)
        return self

    @property
    def rows_per_step(self) -> int:
        """Rows of every step."""
        return self.num_samples


@final
class DpSwdFeatures(SampledMechanism):
    """Answers each step with the gradient of a smoothed sliced Wasserstein distance of features.

    The distance is between the noised projections of the private features and those of the public
    ones, noised by the same law, times F: so it is in the units of squared distances of features.

    References:
        [rakotomamonjy:21], algorithm 2, without the gradient through the private features.
    """

    name = "dp-swd-features"
    specification = DpSwdFeaturesSpec
    sensitivity = "the rows of one unit, of norm at most R each, move, by their projections"
    spec: DpSwdFeaturesSpec

    def __init__(self, spec: DpSwdFeaturesSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.shape = feature_shape(spec, space)
        self._bounds = RowBounds(
            clip_norm=ROW_RADIUS,
            rows_per_unit=spec.max_records_per_unit,
            noise_multiplier=spec.noise_multiplier,
        )

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A sliced Gaussian release of one fresh Poisson sample, in the dimension of the features
            and whatever the weights; that the slots may be full is charged.
        """
        base = SlicedGaussianEvent(
            dimension=self.spec.num_features,
            num_projections=self.spec.num_projections,
            noise_multiplier=self.spec.noise_multiplier,
        )
        return SampledSlicedGaussianEvent(
            sampling_rate=self.spec.rate,
            base=base,
            overflow_probability=self.spec.overflow_probability,
        )

    def requirements(self) -> Requirements:
        """See `Mechanism`; steps send features."""
        return replace(super().requirements(), numbers_per_row=self.spec.num_features)

    def check_samples(self, samples: Samples) -> None:
        """Refuse features or weights that this run did not declare.

        Raises:
            MalformedRequest: If there are not n rows of bounded features, or the weights are not
                those of the architecture.

        Privacy:
            Reads the request and public facts only.
        """
        wanted = (self.spec.num_samples, self.spec.num_features)
        if tuple(samples.images_ND.shape) != wanted:
            detail = f"features: expected {wanted[0]} rows of {wanted[1]} features"
            raise MalformedRequest(detail)
        if not bool((samples.images_ND.abs() <= LARGEST_FEATURE).all()):  # false for NaN
            detail = f"features: expected finite values of at most {LARGEST_FEATURE:g} in size"
            raise MalformedRequest(detail)
        self._weights(samples)

    def gradient(
        self, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return the gradient with respect to the public features, one row per public image.

        Returns:
            n rows, computed from the noised projections of the records' features.

        Privacy:
            Weights are fixed before the directions are drawn, and directions are used once. What
            follows the release of the projections is post-processing: no gradient goes through
            the private features or to the weights.

        References:
            [rakotomamonjy:21], algorithm 2.
        """
        directions = draw_directions(self.spec.num_features, self.spec.num_projections, noise)
        released = self.project(samples, records, directions, noise)
        size = self.spec.capacity * self.spec.num_projections
        smoothing = noise.discrete_gaussian(size).to(torch.float64)

        def rows(values_MK: Tensor) -> Tensor:
            smoothing_MK = smoothing.view_as(values_MK)
            return self._gradient(samples.images_ND, values_MK, directions, smoothing_MK)

        return post_process(released, rows)

    def project(
        self,
        samples: Samples,
        records: Private[RecordBatch],
        directions: Directions,
        noise: NoiseSource,
    ) -> Release:
        """Return the noised projections of the records' features: all that a step learns of them.

        Returns:
            One block (M, K), in units of clip_norm / ROW_RADIUS.

        Privacy:
            One unit moves it by at most the projection of rows of total squared norm m R^2.
        """
        weights = self._weights(samples)

        def record_rows(levels_MP: Tensor, labels_M: Tensor) -> Tensor:
            del labels_M  # the target is unlabelled, whatever is stored
            return feature_rows(self.shape, weights, levels_MP, self.spec.clip_norm)

        return release_projections(
            records, record_rows, directions, bounds=self._bounds, noise=noise
        )

    def _weights(self, samples: Samples) -> dict[str, Tensor]:
        """Return the weights of a step.

        Privacy:
            Reads the request and public facts only.
        """
        return read_weights(samples.weights, self.shape.sizes, LARGEST_WEIGHT)

    def _gradient(
        self,
        features_NF: Tensor,
        values_MK: Tensor,
        directions: Directions,
        smoothing_MK: Tensor,
    ) -> Tensor:
        """Return the gradient of the distance with respect to the public features.

        Privacy:
            Every argument is released or public.
        """
        num_samples, step = self.spec.num_samples, self.spec.clip_norm / ROW_RADIUS
        rows_NF = features_NF.to(torch.float64) / step
        units_FK = directions.unit_columns
        noised_MK = smoothing_MK * self._bounds.grid(self.spec.num_features)
        noised_MK[:num_samples] += clip_rows(rows_NF, ROW_RADIUS) @ units_FK
        slopes_MK = sliced_gradient(noised_MK, values_MK) * self.spec.num_features
        clipped_NF = slopes_MK[:num_samples] @ units_FK.T
        return clip_rows_gradient(rows_NF, ROW_RADIUS, clipped_NF) * step


def feature_shape(spec: DpSwdFeaturesSpec, space: ImageSpace) -> FeatureShape:
    """Return the sizes of the extractor.

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
