"""DP-Sinkhorn: the clipped and noised gradient of a semi-debiased Sinkhorn loss, paid per step.

Statement and proof: dp_sinkhorn.md. The private batch never decides a shape, a number of updates
or a branch.
"""

from __future__ import annotations

import threading
from typing import Annotated, Literal, Self, final

import torch
from pydantic import Field, model_validator

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.divergences.backend import dense_solver
from curator.divergences.cost import LabelledCost
from curator.divergences.device import compute_device
from curator.divergences.large import OnlineSinkhorn, OnlineSolverMissing, fits_dense
from curator.divergences.schedule import converged, public_diameter, published
from curator.divergences.sinkhorn import TransportSolver
from curator.errors import MalformedRequest
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.dp_sinkhorn_step import Halves, Step, step_on
from curator.mechanisms.specification import MAX_ROWS, SampledSpecification
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.clipped import clip_to_ball, release_clipped
from curator.sanitizer.lattice import lattice_radius
from curator.sanitizer.post_process import append_public_rows

_MAX_PIXELS = 1 << 28
_MAX_CONVERGED_PAIRS = 1 << 17  # its Newton steps, cubic in the samples, stay within seconds


class DpSinkhornSpec(SampledSpecification):
    """Public parameters of one DP-Sinkhorn run.

    `num_samples` n rows meet private data, `num_debias` n' <= n rows serve the self term only;
    `reg` is in cost units; `l1_weight` and `label_scale` shape the cost.
    """

    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_debias: Annotated[int, Field(ge=0, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    reg: Annotated[float, Field(ge=1e-3, le=1e6)]
    l1_weight: Annotated[float, Field(ge=0, le=1e3)]
    label_scale: Annotated[float, Field(ge=0, le=1e3)]
    schedule: Literal["published", "converged"]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_debias > self.num_samples:
            msg = "num_debias must not exceed num_samples"
            raise ValueError(msg)
        if self.schedule == "converged" and not self.fits_dense:
            msg = "schedule 'converged' is not offered for this many samples and records"
            raise ValueError(msg)
        if self.schedule == "converged" and self.num_pairs > _MAX_CONVERGED_PAIRS:
            msg = "schedule 'converged' is offered for at most 2^17 pairs of a sample and a record"
            raise ValueError(msg)
        return self

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: n that meet private data and n' that do not."""
        return self.num_samples + self.num_debias

    @property
    def num_pairs(self) -> int:
        """Entries of the larger cost matrix."""
        return self.num_samples * max(self.num_samples, self.capacity)

    @property
    def dtype(self) -> torch.dtype:
        """What the updates need: many of them accumulate rounding."""
        return torch.float64 if self.schedule == "converged" else torch.float32

    @property
    def fits_dense(self) -> bool:
        """Whether the cost matrices of this run are kept in memory."""
        return fits_dense(self.num_samples, max(self.num_samples, self.capacity))


@final
class DpSinkhorn(SampledMechanism):
    """Answers each step with the noisy gradient of 2 W(X[0:n], Y) - W(X[0:n], X[n':n'+n]).

    The published schedule runs in float32, the converged one, which single precision would spoil,
    in float64.

    References:
        [cao:21], algorithm 1.
    """

    name = "dp-sinkhorn"
    specification = DpSinkhornSpec
    sensitivity = "the whole gradient is clipped to C, so it moves by at most 2 C"
    spec: DpSinkhornSpec

    def __init__(self, spec: DpSinkhornSpec, space: ImageSpace) -> None:
        """Choose the solver by public sizes.

        Raises:
            MalformedRequest: Also if the sizes need a solver that this curator does not have.
        """
        if max(2 * spec.num_samples, spec.capacity) * space.dimension > _MAX_PIXELS:
            detail = "num_samples, capacity: too many images of this size"
            raise MalformedRequest(detail)
        super().__init__(spec, space)
        self._device = compute_device()
        self._lock = threading.Lock()
        self._chosen: Step | None = None
        try:
            self._solver = _solver(spec, space)
        except OnlineSolverMissing as missing:
            detail = "num_samples, capacity: too large for the dense solver of this curator"
            raise MalformedRequest(detail) from missing

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a function, bounded by C, of one fresh Poisson sample.
        """
        return SampledGaussianEvent(
            sampling_rate=self.spec.rate, noise_multiplier=self.spec.noise_multiplier
        )

    def gradient(
        self, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return the noisy gradient with respect to the images, one row per sample.

        Returns:
            n noised rows, then n' rows of the public half, clipped as one block, without noise.

        Privacy:
            The n rows are one vector clipped to C, so any two batches are 2C apart; the noise has
            standard deviation 2 * C * noise_multiplier. The n' rows are computed without `records`.

        References:
            [cao:21], algorithm 1; [mironov:19], theorem 4.
        """
        with self._step().begun(samples) as step:
            release = release_clipped(
                lambda: step.private_rows(records.unseal()),
                shape=(self.spec.num_samples, self.space.dimension),
                clip_norm=self.spec.clip_norm,
                noise_multiplier=self.spec.noise_multiplier,
                noise=noise,
            )
            if self.spec.num_debias == 0:
                return release
            debias_rows = step.debias_rows().to(torch.float64)
        return append_public_rows(release, clip_to_ball(debias_rows, self.spec.clip_norm))

    def _step(self) -> Step:
        """Return how steps are run, chosen at the first: most runs that are planned never start.

        Privacy:
            Decided by the specification and the device.
        """
        with self._lock:
            if self._chosen is None:
                spec, space = self.spec, self.space
                halves = Halves(
                    solver=self._solver,
                    device=self._device,
                    dtype=spec.dtype,
                    num_samples=spec.num_samples,
                    num_debias=spec.num_debias,
                    capacity=spec.capacity,
                    dimension=space.dimension,
                    max_level=space.max_level,
                    clip_norm=spec.clip_norm,
                    radius=lattice_radius(spec.noise_multiplier, sensitivity_in_radii=2),
                )
                is_short = spec.fits_dense and spec.schedule == "published"
                on_card = self._device.type == "cuda"
                self._chosen = step_on(halves, is_captured=is_short and on_card)
            return self._chosen


def _solver(spec: DpSinkhornSpec, space: ImageSpace) -> TransportSolver:
    """Return the solver for the public sizes of a run.

    Privacy:
        Every number comes from the specification and the image space.
    """
    cost = LabelledCost(l1_weight=spec.l1_weight, label_scale=spec.label_scale)
    diameter = public_diameter(space, spec.label_scale)
    if not spec.fits_dense:
        return OnlineSinkhorn(cost, diameter=diameter, reg=spec.reg)
    make = {"published": published, "converged": converged}[spec.schedule]
    return dense_solver(cost, make(diameter, spec.reg), spec.dtype)
