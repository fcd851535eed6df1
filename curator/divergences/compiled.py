"""The dense solver with compiled loops: the same updates as `DenseSinkhorn`, in float32.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch

from curator.divergences import kernels
from curator.divergences.cost import LabelledCost, WeightedPoints
from curator.divergences.schedule import Schedule

if TYPE_CHECKING:
    from torch import Tensor

_AVERAGED = -1.0


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledSinkhorn:
    """Transport with the whole cost matrix in memory, its loops compiled by numba.

    References:
        [cuturi:13]; [feydy:20], section 3.3.3.
    """

    cost: LabelledCost
    schedule: Schedule

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return dW / d(images of the first cloud); see `DenseSinkhorn`."""
        cost_NM, cost_MN = self._costs(first, second)
        _, second_M = self._anneal(cost_NM, cost_MN, first, second)
        return self._first(cost_MN, second_M, first, second)

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the images of both clouds."""
        cost_NM, cost_MN = self._costs(first, second)
        first_N, second_M = self._anneal(cost_NM, cost_MN, first, second)
        rows_MD = self._first(cost_NM, first_N, second, first)
        return self._first(cost_MN, second_M, first, second), rows_MD

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        """Return dW(points, points) / d(images); see `DenseSinkhorn`."""
        if not self.schedule.is_symmetric:
            rows_ND, other_ND = self.both_gradients(points, points)
            return rows_ND + other_ND
        cost_NN, _ = self._costs(points, points)
        regs = np.array(self.schedule.temperatures, np.float32)
        potential_N = kernels.anneal_alone(cost_NN, _array(points.log_weights_N), regs)
        return self._first(cost_NN, potential_N, points, points).mul_(2)

    def _costs(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the costs (N, M), and again with the clouds swapped."""
        rows, columns = len(first.labels_N), len(second.labels_N)
        cost_NM = np.empty((rows, columns), np.float32)
        cost_MN = cost_NM if first is second else np.empty((columns, rows), np.float32)
        kernels.pair_costs(
            _array(first.images_ND),
            _array(second.images_ND),
            _array(first.labels_N),
            _array(second.labels_N),
            np.float32(self.cost.l1_weight),
            np.float32(self.cost.label_gap),
            first is second,
            cost_NM,
            cost_MN,
        )
        return cost_NM, cost_MN

    def _anneal(
        self,
        cost_NM: np.ndarray[Any, Any],
        cost_MN: np.ndarray[Any, Any],
        first: WeightedPoints,
        second: WeightedPoints,
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        regs = np.array(self.schedule.temperatures, np.float32)
        relaxations = [_AVERAGED if w is None else w for w in self.schedule.relaxations]
        potentials: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] = kernels.anneal(
            cost_NM,
            cost_MN,
            _array(first.log_weights_N),
            _array(second.log_weights_N),
            regs,
            np.array(relaxations, np.float32),
        )
        return potentials

    def _first(
        self,
        cost_MN: np.ndarray[Any, Any],
        potential_M: np.ndarray[Any, Any],
        first: WeightedPoints,
        second: WeightedPoints,
    ) -> Tensor:
        """Differentiate through the plan whose rows sum to the first cloud's weights."""
        reg = np.float32(self.schedule.reg)
        plan_MN = np.empty_like(cost_MN)
        offsets_M = _array(second.log_weights_N) + potential_M / reg
        kernels.column_plan(cost_MN, offsets_M, reg, _array(first.log_weights_N), plan_MN)
        plan_NM = torch.from_numpy(plan_MN).T
        plain = LabelledCost(l1_weight=0.0, label_scale=self.cost.label_scale)
        rows_ND = plain.gradient(plan_NM, first.images_ND, second.images_ND)
        if self.cost.l1_weight > 0:
            kernels.add_sign_sums(
                plan_MN,
                np.float32(self.cost.l1_weight),
                _array(first.images_ND),
                _array(second.images_ND),
                rows_ND.numpy(),
            )
        return rows_ND


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.contiguous().numpy()
