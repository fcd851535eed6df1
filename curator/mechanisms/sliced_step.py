"""One step of a sliced Wasserstein distance: private rows meet fresh directions, and are noised.

Everything after that is post-processing, sorting included.

Shape legend: N samples, M slots, D coordinates of a row, K directions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.divergences.sliced import clip_rows, clip_rows_gradient, sliced_gradient
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.specification import MAX_ROWS, BoundedSpecification
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.post_process import post_process
from curator.sanitizer.projected import RowBounds, release_projections

_MAX_NOISE_VALUES = 1 << 24


class SlicedSpecification(BoundedSpecification):
    """With rows of norm at most `clip_norm` R, over which `noise_multiplier` is."""

    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_projections: Annotated[int, Field(ge=1, le=1 << 20)]
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


class SlicedMechanism(SampledMechanism):
    """Answers each step with the gradient of a smoothed sliced Wasserstein distance.

    The distance is between the noised projections of the private rows and those of the generated
    rows, noised by the same law, times D: so it is in the units of squared distances of rows.
    """

    sensitivity = "the rows of one unit, of norm at most R each, move, by their projections"
    spec: SlicedSpecification
    bounds: RowBounds

    @property
    @abstractmethod
    def width(self) -> int:
        """Coordinates of a row: D."""

    @abstractmethod
    def record_rows(self, samples: Samples) -> Callable[[Tensor, Tensor], Tensor]:
        """Return what makes integer rows of levels and labels.

        Privacy:
            Row i must be a function of record i, of the samples and of public numbers, bit for bit.
        """

    @abstractmethod
    def sample_rows(self, samples: Samples) -> Tensor:
        """Return the generated rows (N, D), in the units of those of records."""

    @abstractmethod
    def gradient_of(self, slopes_ND: Tensor) -> Tensor:
        """Return the gradient of what was sent from that of its rows."""

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A sliced Gaussian release of one fresh Poisson sample; of the slots' being full, the
            probability for the largest number of units is charged.
        """
        base = SlicedGaussianEvent(
            dimension=self.width,
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
        """Return the gradient with respect to what was sent, one row per sample.

        Privacy:
            What is sent is fixed before the directions are drawn, records too, and directions are
            used once. What follows the release of the projections is post-processing: no gradient
            goes through private rows.

        References:
            [rakotomamonjy:21], algorithms 1 and 2.
        """
        directions = draw_directions(self.width, self.spec.num_projections, noise)
        released = self.project(samples, records, directions, noise)
        size = self.spec.capacity * self.spec.num_projections
        smoothing = noise.discrete_gaussian(size).to(torch.float64)

        def rows(values_MK: Tensor) -> Tensor:
            smoothed_MK = smoothing.view_as(values_MK) * self.bounds.grid(self.width)
            rows_ND = self.sample_rows(samples)
            return self.gradient_of(self._slopes(rows_ND, values_MK, directions, smoothed_MK))

        return post_process(released, rows)

    def project(
        self,
        samples: Samples,
        records: Private[RecordBatch],
        directions: Directions,
        noise: NoiseSource,
    ) -> Release:
        """Return the noised projections of the records' rows: all that a step learns of them.

        Returns:
            One block (M, K), in the units of rows.

        Privacy:
            One unit moves it by at most the projection of rows of total squared norm m R^2.
        """
        made = self.record_rows(samples)
        return release_projections(records, made, directions, bounds=self.bounds, noise=noise)

    def _slopes(
        self, rows_ND: Tensor, values_MK: Tensor, directions: Directions, smoothed_MK: Tensor
    ) -> Tensor:
        """Return the gradient of the distance with respect to the generated rows.

        Privacy:
            Every argument is released or public.
        """
        num_rows, units_DK = len(rows_ND), directions.unit_columns
        smoothed_MK[:num_rows] += clip_rows(rows_ND, self.bounds.clip_norm) @ units_DK
        slopes_MK = sliced_gradient(smoothed_MK, values_MK) * self.width
        clipped_ND = slopes_MK[:num_rows] @ units_DK.T
        return clip_rows_gradient(rows_ND, self.bounds.clip_norm, clipped_ND)
