"""Problems with known float64 answers, with which a body is checked before it serves.

Nothing here is private: the points are drawn from a public stream. They lie on a grid that float32
holds exactly, so both precisions are asked the same question, and some of them lie as near to each
other as the regularisation, so that no gradient is zero. An error is measured against the largest
gradient of its problem: against one that happens to be small, rounding alone would be everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.critics import public_uniforms
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

if TYPE_CHECKING:
    from torch import Tensor

_NUM_CLASSES: Final = 3
_GRID: Final = 2.0**-14  # of the pixels, all of which float32 holds exactly


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckProblem:
    """Two clouds of public numbers, the second padded, and what transports them.

    Points of the first cloud lie in clusters: member k of one is k times `spacing` away from its
    middle. Points of the second lie anywhere within `spread`. `tolerance` is the error that float32
    may have here: some hundred roundings, or ten where a cost is thousands of regularisations.
    """

    cost: LabelledCost
    schedule: Schedule
    num_first: int
    num_second: int
    num_kept: int
    num_pixels: int
    num_clusters: int
    spread: float
    spacing: float
    tolerance: float

    def clouds(
        self, dtype: torch.dtype, device: torch.device
    ) -> tuple[WeightedPoints, WeightedPoints]:
        """Return the clouds, the same numbers at every call.

        Args:
            dtype: float32 or float64.
            device: Where the points are put.
        """
        rows = self.num_first + self.num_second
        drawn = public_uniforms(0, "agreement", rows * self.num_pixels)
        places = drawn.reshape(rows, self.num_pixels) * 2 - 1
        members = torch.arange(self.num_first)
        middles = places[members % self.num_clusters] * self.spread
        steps = (members // self.num_clusters).unsqueeze(1) * self.spacing
        first = middles + steps * places[: self.num_first]
        images = torch.cat((first, places[self.num_first :] * self.spread))
        images = ((images / _GRID).round() * _GRID).to(device, dtype)
        labels = (torch.arange(rows) % _NUM_CLASSES).to(device)
        padding = torch.full((self.num_second,), -torch.inf, dtype=torch.float64)
        padding[: self.num_kept] = -math.log(self.num_kept)
        second = WeightedPoints(
            images_ND=images[self.num_first :],
            labels_N=labels[self.num_first :],
            log_weights_N=padding.to(device, dtype),
        )
        return uniform_points(images[: self.num_first], labels[: self.num_first]), second


def disagreement(solver: TransportSolver, problem: CheckProblem, device: torch.device) -> float:
    """Return how far float32 gradients are from float64 on a problem with padding.

    Returns:
        The largest distance of a gradient from its float64 value, in units of the largest
        gradient of the problem; NaN if one has no number.
    """
    exact = all_gradients(
        DenseSinkhorn(cost=problem.cost, schedule=problem.schedule),
        problem.clouds(torch.float64, torch.device("cpu")),
    )
    got = all_gradients(solver, problem.clouds(torch.float32, device))
    scale = torch.stack([one.norm() for one in exact]).max()
    distances = [
        (one.cpu().double() - other).norm() / scale for one, other in zip(got, exact, strict=True)
    ]
    return float(torch.stack(distances).max())


def all_gradients(
    solver: TransportSolver, clouds: tuple[WeightedPoints, WeightedPoints]
) -> tuple[Tensor, ...]:
    """Return every gradient that a solver gives: of one cloud, of both, and of the self term."""
    first, second = clouds
    alone = solver.self_gradient(first)
    return (solver.first_gradient(first, second), *solver.both_gradients(first, second), alone)


SMALL: Final = CheckProblem(
    cost=LabelledCost(l1_weight=1.0, label_scale=0.3),
    schedule=published(8.0, 0.5),
    num_first=8,
    num_second=12,
    num_kept=9,
    num_pixels=24,
    num_clusters=2,
    spread=0.5,
    spacing=0.02,
    tolerance=1e-4,
)
"""Two labels cost about as much as the regularisation, so that they matter in every gradient."""

ALTERNATING: Final = CheckProblem(
    cost=LabelledCost(l1_weight=1.0, label_scale=2.0),
    schedule=Schedule(
        temperatures=(4.0, 2.0, 1.0, 1.0, 1.0, 1.0),
        relaxations=(None, None, 1.6, 1.6, 1.6, 1.0),
    ),
    num_first=9,
    num_second=12,
    num_kept=7,
    num_pixels=50,
    num_clusters=3,
    spread=0.5,
    spacing=0.05,
    tolerance=1e-4,
)
"""Updates of one potential after the other, as the converged schedule makes them."""

PUBLISHED: Final = CheckProblem(
    cost=LabelledCost(l1_weight=1.0, label_scale=15.0),
    schedule=published(73.4, 0.05),
    num_first=50,
    num_second=112,
    num_kept=50,
    num_pixels=784,
    num_clusters=12,
    spread=0.3,
    spacing=1e-4,
    tolerance=1e-3,
)
"""Of the sizes of the published MNIST run, where single precision is hardest."""

PROBLEMS: Final = (SMALL, ALTERNATING, PUBLISHED)
"""What every body is checked with."""
