"""The dense solver in three fused kernels: the same updates as `DenseSinkhorn`, in float32.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import torch

from curator.divergences import cuda_kernels as kernels
from curator.divergences.cost import LabelledCost, WeightedPoints
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import DenseSinkhorn

if TYPE_CHECKING:
    from torch import Tensor

MAX_ENTRIES: Final = 1 << 14
"""Of a padded cost matrix that one program keeps in its registers."""

_LEAST_SIDE = 16
_ENTRIES_PER_WARP = 1 << 10
_COST_BLOCKS = {"BLOCK_N": 8, "BLOCK_M": 8, "BLOCK_D": 32}
_GRADIENT_BLOCKS = {"BLOCK_N": 4, "BLOCK_M": 16, "BLOCK_D": 64}


@final
class FusedSinkhorn:
    """Transport on a graphics card: one kernel each for costs, updates and the gradient.

    References:
        [cuturi:13]; [feydy:20], section 3.3.3.
    """

    def __init__(self, cost: LabelledCost, schedule: Schedule, device: torch.device) -> None:
        """Put the schedule on the card, so that a step copies nothing but points."""
        self._cost = cost
        self._plain = DenseSinkhorn(cost=cost, schedule=schedule)
        relaxations = [0.5 if w is None else w for w in schedule.relaxations]
        averaged = [w is None for w in schedule.relaxations]
        self._temperatures = torch.tensor(schedule.temperatures, device=device).float()
        self._relaxations = torch.tensor(relaxations, device=device).float()
        self._averaged = torch.tensor(averaged, device=device).int()

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return dW / d(images of the first cloud); see `DenseSinkhorn`."""
        if not _fits(first, second):
            return self._plain.first_gradient(first, second)
        u, v = first.images_ND.contiguous(), second.images_ND.contiguous()
        plan_NM = self._plans(first, second, has_second=False)[0]
        return self._gradient(plan_NM, u, v)

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the images of both clouds."""
        if not _fits(first, second):
            return self._plain.both_gradients(first, second)
        u, v = first.images_ND.contiguous(), second.images_ND.contiguous()
        first_plan_NM, second_plan_NM = self._plans(first, second, has_second=True)
        return self._gradient(first_plan_NM, u, v), self._gradient(second_plan_NM.T, v, u)

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        """Return dW(points, points) / d(images); see `DenseSinkhorn`."""
        if self._plain.schedule.is_symmetric:
            return self.first_gradient(points, points) * 2
        first_ND, second_ND = self.both_gradients(points, points)
        return first_ND + second_ND

    def _plans(
        self, first: WeightedPoints, second: WeightedPoints, *, has_second: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the plan whose rows sum to the first weights, and the one for the columns."""
        u, v = first.images_ND.contiguous(), second.images_ND.contiguous()
        cost_NM = u.new_empty((len(u), len(v)))
        grid = (
            -(-len(u) // _COST_BLOCKS["BLOCK_N"]),
            -(-len(v) // _COST_BLOCKS["BLOCK_M"]),
        )
        kernels.cost_kernel[grid](
            u,
            v,
            first.labels_N,
            second.labels_N,
            cost_NM,
            len(u),
            len(v),
            u.shape[1],
            self._cost.l1_weight,
            self._cost.label_gap,
            **_COST_BLOCKS,
        )
        block_n, block_m = _padded(len(u)), _padded(len(v))
        plans = (torch.empty_like(cost_NM), torch.empty_like(cost_NM))
        kernels.plan_kernel[(1,)](
            cost_NM,
            first.log_weights_N,
            second.log_weights_N,
            self._temperatures,
            self._relaxations,
            self._averaged,
            *plans,
            len(u),
            len(v),
            len(self._temperatures),
            HAS_SECOND=has_second,
            BLOCK_N=block_n,
            BLOCK_M=block_m,
            num_warps=max(4, block_n * block_m // _ENTRIES_PER_WARP),
        )
        return plans

    def _gradient(self, plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
        """Differentiate the cost in the first images, the plan held fixed."""
        rows_ND = torch.empty_like(first_ND)
        grid = (
            -(-first_ND.shape[0] // _GRADIENT_BLOCKS["BLOCK_N"]),
            -(-first_ND.shape[1] // _GRADIENT_BLOCKS["BLOCK_D"]),
        )
        kernels.gradient_kernel[grid](
            plan_NM,
            first_ND,
            second_MD,
            rows_ND,
            first_ND.shape[0],
            second_MD.shape[0],
            first_ND.shape[1],
            plan_NM.stride(0),
            plan_NM.stride(1),
            self._cost.l1_weight,
            **_GRADIENT_BLOCKS,
        )
        return rows_ND


def _padded(count: int) -> int:
    """Return the power of two that a block of this many points takes."""
    return max(_LEAST_SIDE, 1 << (count - 1).bit_length())


def _fits(first: WeightedPoints, second: WeightedPoints) -> bool:
    """Return whether these public sizes are for the fused kernels."""
    return _padded(len(first.labels_N)) * _padded(len(second.labels_N)) <= MAX_ENTRIES
