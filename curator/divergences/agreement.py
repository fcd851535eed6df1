"""Problems with known float64 answers, with which a body is checked before it serves.

Nothing here is private: the numbers are a sine's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckProblem:
    """Two clouds of public numbers, the second padded, and what transports them."""

    cost: LabelledCost
    schedule: Schedule
    num_first: int
    num_second: int
    num_kept: int
    num_pixels: int

    def clouds(
        self, dtype: torch.dtype, device: torch.device
    ) -> tuple[WeightedPoints, WeightedPoints]:
        """Return the clouds, the same numbers at every call."""
        rows = self.num_first + self.num_second
        counted = torch.arange(rows * self.num_pixels, dtype=torch.float64)
        images = torch.sin(counted * 7.3).reshape(rows, self.num_pixels)
        labels = torch.arange(rows) % 3
        padding = torch.full((self.num_second,), -torch.inf, dtype=torch.float64)
        padding[: self.num_kept] = -math.log(self.num_kept)
        images, padding, labels = (
            images.to(device, dtype),
            padding.to(device, dtype),
            labels.to(device),
        )
        first = uniform_points(images[: self.num_first], labels[: self.num_first])
        second = WeightedPoints(
            images_ND=images[self.num_first :],
            labels_N=labels[self.num_first :],
            log_weights_N=padding,
        )
        return first, second


def disagreement(solver: TransportSolver, problem: CheckProblem, device: torch.device) -> float:
    """Return how far float32 gradients are from float64 on a problem with padding.

    Args:
        solver: To be checked.
        problem: What it was built for.
        device: Where it computes.

    Returns:
        The largest relative distance of the gradients; NaN if one has no number.
    """
    exact = _all_gradients(
        DenseSinkhorn(cost=problem.cost, schedule=problem.schedule),
        problem.clouds(torch.float64, torch.device("cpu")),
    )
    got = _all_gradients(solver, problem.clouds(torch.float32, device))
    distances = [
        (one.cpu().double() - other).norm() / other.norm()
        for one, other in zip(got, exact, strict=True)
    ]
    return float(torch.stack(distances).max())


def _all_gradients(
    solver: TransportSolver, clouds: tuple[WeightedPoints, WeightedPoints]
) -> tuple[Tensor, ...]:
    return (*solver.both_gradients(*clouds), solver.self_gradient(clouds[0]))


SMALL: Final = CheckProblem(
    cost=LabelledCost(l1_weight=1.0, label_scale=2.0),
    schedule=published(8.0, 0.5),
    num_first=8,
    num_second=12,
    num_kept=9,
    num_pixels=24,
)
PUBLISHED: Final = CheckProblem(
    cost=LabelledCost(l1_weight=1.0, label_scale=15.0),
    schedule=published(73.4, 0.05),
    num_first=50,
    num_second=112,
    num_kept=50,
    num_pixels=784,
)
"""Of the sizes of the published MNIST run, where single precision is hardest."""
