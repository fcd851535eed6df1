"""DP-SWD on features: public images drawn to a private, unlabelled sample, paid per step.

Statement and proof: dp_swd_features.md. The analyst sends the weights of a feature extractor and
the features of public images. Private features meet fresh random directions in the sanitizer; the
gradient is with respect to the public features only, so that all of it is post-processing. Labels
of records are never read.

Shape legend: N public rows, M slots, P pixels, F features, K directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final, final

import torch
from pydantic import Field
from torch import Tensor

from curator.divergences.architectures import Architecture
from curator.divergences.feature_nets import (
    LARGEST_WEIGHT,
    MAX_FEATURES,
    ROW_RADIUS,
    FeatureShape,
    feature_rows,
)
from curator.errors import MalformedRequest
from curator.mechanisms.base import Requirements
from curator.mechanisms.sliced_step import SlicedMechanism, SlicedSpecification
from curator.mechanisms.uploaded_weights import extractor_shape, read_weights, weight_bytes
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.projected import RowBounds

LARGEST_FEATURE: Final = 1e6
_MAX_PROJECTIONS = 1 << 16
_MAX_WORK = 1 << 38  # multiplications for the features of a step: a minute or two on one core


class DpSwdFeaturesSpec(SlicedSpecification):
    """Public parameters of one run.

    A record's row is its `num_features` features by an extractor of the named `architecture`, whose
    weights come with every step, scaled to norm `clip_norm` if it is longer. The features of
    `num_samples` public images are compared with `capacity` slots, the other slots zero.
    `noise_multiplier` is over `clip_norm`. `max_size` and `max_records_per_unit` repeat, or exceed,
    what the data set declares: how often the slots are full is part of the cost.
    """

    num_projections: Annotated[int, Field(ge=1, le=_MAX_PROJECTIONS)]
    architecture: Architecture
    num_features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]


@final
class DpSwdFeatures(SlicedMechanism):
    """The distance of features; its gradient is with respect to the public ones.

    References:
        [rakotomamonjy:21], algorithm 2, without the gradient through the private features.
    """

    name = "dp-swd-features"
    specification = DpSwdFeaturesSpec
    spec: DpSwdFeaturesSpec

    def __init__(self, spec: DpSwdFeaturesSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.shape = feature_shape(spec, space)
        self._step = spec.clip_norm / ROW_RADIUS  # of rows, in features
        self.bounds = RowBounds(
            clip_norm=ROW_RADIUS,
            rows_per_unit=spec.max_records_per_unit,
            noise_multiplier=spec.noise_multiplier,
        )

    @property
    def width(self) -> int:
        """See `SlicedMechanism`."""
        return self.spec.num_features

    def requirements(self) -> Requirements:
        """See `Mechanism`; steps send features."""
        return replace(
            super().requirements(),
            numbers_per_row=self.spec.num_features,
            weight_bytes=weight_bytes(self.shape.sizes),
        )

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

    def record_rows(self, samples: Samples) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what makes rows: features by the weights that were sent.

        Privacy:
            Row i is a function of record i, the weights and public numbers, bit for bit.
        """
        weights = self._weights(samples)

        def rows(levels_MP: Tensor, labels_M: Tensor) -> Tensor:
            del labels_M  # the target is unlabelled, whatever is stored
            return feature_rows(self.shape, weights, levels_MP, self.spec.clip_norm)

        return rows

    def sample_rows(self, samples: Samples) -> Tensor:
        """See `SlicedMechanism`."""
        return samples.images_ND.to(torch.float64) / self._step

    def gradient_of(self, slopes_ND: Tensor) -> Tensor:
        """See `SlicedMechanism`."""
        return slopes_ND * self._step

    def _weights(self, samples: Samples) -> dict[str, Tensor]:
        """Return the weights of a step.

        Privacy:
            Reads the request and public facts only.
        """
        return read_weights(samples.weights, self.shape.sizes, LARGEST_WEIGHT)


def feature_shape(spec: DpSwdFeaturesSpec, space: ImageSpace) -> FeatureShape:
    """Return the sizes of the extractor.

    Raises:
        MalformedRequest: If it does not fit images of this size, or a step would take absurdly
            long.

    Privacy:
        Reads the request and public facts only.
    """
    shape = extractor_shape(spec.architecture, spec.num_features, space)
    if spec.capacity * shape.multiplications > _MAX_WORK:
        detail = "capacity, architecture: too much work for one step"
        raise MalformedRequest(detail)
    return shape
