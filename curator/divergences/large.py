"""Entropic transport for clouds whose cost matrix does not fit in memory: an adapter on geomloss.

geomloss's online backend (KeOps) recomputes costs instead of storing them. Which solver serves a
run is decided by its public sizes. Two habits of geomloss are kept in check here: it takes its
number of updates from the data unless the diameter is given, and it leaves autograd switched.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, final

import torch

from curator.divergences.cost import LabelledCost, WeightedPoints

if TYPE_CHECKING:
    from torch import Tensor

MAX_DENSE_ENTRIES = 1 << 22


class OnlineSolverMissing(RuntimeError):
    """The library that solves large problems is not installed."""

    def __init__(self) -> None:
        """Say what to install."""
        super().__init__(
            "this many samples and records need the online solver: install pykeops "
            "(pip install pykeops; it compiles with a C++ compiler at first use)"
        )


def fits_dense(num_first: int, num_second: int) -> bool:
    """Return whether a cost matrix of these public sizes is kept in memory."""
    return num_first * num_second <= MAX_DENSE_ENTRIES


@final
class OnlineSinkhorn:
    """Transport by the published schedule, costs recomputed on the fly.

    References:
        [feydy:20], algorithm 3.5; [charlier:21].
    """

    def __init__(self, cost: LabelledCost, *, diameter: float, reg: float) -> None:
        """Keep the public parameters.

        Args:
            cost: Ground cost.
            diameter: Public start of the annealing, never read off a cloud.
            reg: Regularisation it ends at, in cost units.

        Raises:
            OnlineSolverMissing: If pykeops cannot be imported.
        """
        if importlib.util.find_spec("pykeops") is None:
            raise OnlineSolverMissing
        self._cost = cost
        self._diameter = diameter
        self._reg = reg

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return dW / d(images of the first cloud).

        Returns:
            Rows (N, D) in the dtype of the images.
        """
        return self.both_gradients(first, second)[0]

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the images of both clouds.

        Returns:
            Rows (N, D) and rows (M, D).
        """
        from geomloss import SamplesLoss

        dimension = first.images_ND.shape[1]
        loss = SamplesLoss(
            "sinkhorn",
            p=1,
            blur=self._reg,
            scaling=0.5,
            diameter=self._diameter,
            debias=False,
            cost=_cost_formula(dimension),
            backend="online",
        )
        with torch.enable_grad():  # restores the caller's mode, which geomloss does not
            u, v = (self._coordinates(points).requires_grad_() for points in (first, second))
            value = loss(first.log_weights_N.exp(), u, second.log_weights_N.exp(), v)
            rows_u, rows_v = torch.autograd.grad(value, (u, v))
        return rows_u[:, :dimension], rows_v[:, :dimension]

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        """Return dW(points, points) / d(images), through both arguments.

        Returns:
            Rows (N, D).
        """
        first_ND, second_ND = self.both_gradients(points, points)
        return first_ND + second_ND

    def _coordinates(self, points: WeightedPoints) -> Tensor:
        """Join the images with their label and the two constants that the formula reads."""
        images_ND = points.images_ND
        constants = images_ND.new_tensor([self._cost.label_gap, self._cost.l1_weight])
        parts = (
            images_ND,
            points.labels_N.to(images_ND.dtype).unsqueeze(1),
            constants.expand(images_ND.shape[0], 2),
        )
        return torch.cat(parts, dim=1).contiguous()


def _cost_formula(dimension: int) -> str:
    """Return the ground cost in KeOps' language; coordinates are image, label, gap, l1 weight."""
    step = f"(Extract(X,0,{dimension})-Extract(Y,0,{dimension}))"
    label_step = f"(Extract(X,{dimension},1)-Extract(Y,{dimension},1))"
    gap, l1_weight = f"Extract(X,{dimension + 1},1)", f"Extract(X,{dimension + 2},1)"
    return f"(SqNorm2{step}+{l1_weight}*Sum(Abs{step})+{gap}*Sign(Abs{label_step}))"
