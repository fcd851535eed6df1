"""DP-SWD: sliced Wasserstein distance to noised projections of a private sample, paid per step.

Statement and proof: dp_swd.md. The private rows meet fresh random directions in the sanitizer;
everything after that is post-processing, sorting included.

Shape legend: N samples, M slots, P pixels, D = P + classes coordinates of a row, K directions.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.divergences.sliced import clip_rows, clip_rows_gradient, sliced_gradient
from curator.errors import MalformedRequest
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.specification import MAX_ROWS, BoundedSpecification
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.post_process import post_process
from curator.sanitizer.projected import RowBounds, release_projections

_MAX_PROJECTIONS = 1 << 20
_MAX_DIMENSION = 1 << 16  # the projections of such rows are exact whatever their levels
_MAX_DIRECTION_ENTRIES = 1 << 25
_MAX_NOISE_VALUES = 1 << 24
_MAX_ROW_ENTRIES = 1 << 26
_ZERO: Final = {"black": 0, "grey": 1, "white": 2}  # the level of a zero row, in max_level / 2


class DpSwdSpec(BoundedSpecification):
    """Public parameters of one DP-SWD run.

    A row is a record's pixels less those of the `origin`, in units where white less black is 2,
    and `label_scale` at the place of its class; it is scaled to norm `clip_norm` if it is longer.
    `num_samples` generated rows are compared with `capacity` slots, the other slots zero.
    `max_size` and `max_records_per_unit` repeat, or exceed, what the data set declares: how often
    the slots are full is part of the cost.
    """

    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_projections: Annotated[int, Field(ge=1, le=_MAX_PROJECTIONS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    label_scale: Annotated[float, Field(ge=0, le=1e3)]
    origin: Literal["black", "grey", "white"]

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
class DpSwd(SampledMechanism):
    """Answers each step with the gradient of a smoothed sliced Wasserstein distance.

    The distance is between the noised projections of the private rows and those of the generated
    rows, noised by the same law, times D: so it is in the units of squared distances of rows.

    References:
        [rakotomamonjy:21], algorithm 1, with labels in the row.
    """

    name = "dp-swd"
    specification = DpSwdSpec
    sensitivity = "the rows of one unit, of norm at most R each, move, by their projections"
    prices_by_image = True
    spec: DpSwdSpec

    def __init__(self, spec: DpSwdSpec, space: ImageSpace) -> None:
        """See `Mechanism`.

        Raises:
            MalformedRequest: If the sizes are absurd for images of this size.
        """
        super().__init__(spec, space)
        self._dimension = space.dimension + space.num_classes
        too_large = (
            self._dimension > _MAX_DIMENSION
            or self._dimension * spec.num_projections > _MAX_DIRECTION_ENTRIES
            or self._dimension * spec.capacity > _MAX_ROW_ENTRIES
        )
        if too_large:
            detail = "capacity, num_projections: too many for images of this size"
            raise MalformedRequest(detail)
        self._label_value = round(spec.label_scale * space.max_level)
        self._bounds = RowBounds(
            clip_norm=spec.clip_norm * space.max_level,
            rows_per_unit=spec.max_records_per_unit,
            noise_multiplier=spec.noise_multiplier,
        )

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A sliced Gaussian release of one fresh Poisson sample; of the slots' being full, the
            probability for the largest number of units is charged.
        """
        base = SlicedGaussianEvent(
            dimension=self.space.dimension + self.space.num_classes,
            num_projections=self.spec.num_projections,
            noise_multiplier=self.spec.noise_multiplier,
        )
        return SampledSlicedGaussianEvent(
            sampling_rate=self.spec.rate,
            base=base,
            overflow_probability=self.spec.overflow_probability,
        )

    def gradient(
        self, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return the gradient with respect to the images, one row per sample.

        Returns:
            n rows, computed from the noised projections of the records.

        Privacy:
            Directions are drawn after the records are fixed and used once. What follows the
            release of the projections is post-processing.

        References:
            [rakotomamonjy:21], algorithm 1.
        """
        directions = draw_directions(self._dimension, self.spec.num_projections, noise)
        released = self.project(records, directions, noise)
        size = self.spec.capacity * self.spec.num_projections
        smoothing = noise.discrete_gaussian(size).to(torch.float64)

        def rows(values_MK: Tensor) -> Tensor:
            return self._gradient(samples, values_MK, directions, smoothing.view_as(values_MK))

        return post_process(released, rows)

    def project(
        self, records: Private[RecordBatch], directions: Directions, noise: NoiseSource
    ) -> Release:
        """Return the noised projections of the records: all that a step learns of them.

        Returns:
            One block (M, K), in units of one over max_level.

        Privacy:
            One unit moves it by at most the projection of rows of total squared norm m R^2.
        """
        return release_projections(
            records, self._record_rows, directions, bounds=self._bounds, noise=noise
        )

    def _record_rows(self, levels_MP: Tensor, labels_M: Tensor) -> Tensor:
        """Return integer rows: 2 v less the origin's, then the label's value at its class.

        Privacy:
            Row i is a function of record i alone, computed in exact integers; a label outside the
            classes is no label.
        """
        zero = _ZERO[self.spec.origin] * self.space.max_level
        pixels_MP = levels_MP.to(torch.float64) * 2 - zero
        return torch.cat((pixels_MP, self._label_rows(labels_M)), dim=1)

    def _label_rows(self, labels_M: Tensor) -> Tensor:
        """Return the label's value at the place of its class.

        Privacy:
            Elementwise: row i is a function of label i.
        """
        classes = torch.arange(self.space.num_classes)
        return (labels_M.unsqueeze(1) == classes).to(torch.float64) * self._label_value

    def _gradient(
        self, samples: Samples, values_MK: Tensor, directions: Directions, smoothing_MK: Tensor
    ) -> Tensor:
        """Return the gradient of the distance with respect to the images.

        Privacy:
            Every argument is released or public.
        """
        level, num_samples = self.space.max_level, self.spec.num_samples
        zero = _ZERO[self.spec.origin] - 1
        pixels_NP = (samples.images_ND.to(torch.float64) - zero) * level
        rows_ND = torch.cat((pixels_NP, self._label_rows(samples.labels_N)), dim=1)
        units_DK = directions.unit_columns
        noised_MK = smoothing_MK * self._bounds.grid(self._dimension)
        noised_MK[:num_samples] += clip_rows(rows_ND, self._bounds.clip_norm) @ units_DK
        slopes_MK = sliced_gradient(noised_MK, values_MK) * self._dimension
        clipped_ND = slopes_MK[:num_samples] @ units_DK.T
        gradient_ND = clip_rows_gradient(rows_ND, self._bounds.clip_norm, clipped_ND)
        return gradient_ND[:, : self.space.dimension] / level
