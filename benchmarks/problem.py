"""The published problem: gradient of 2 W(X, Y) - W(X, X') with 50 images of 784 pixels.

The padded batch has capacity 96, of which 50 rows are real. geomloss and POT see the real rows
alone, as their users would call them; "geomloss padded" does the work that privacy asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch
from torch import Tensor

from curator.divergences.cost import LabelledCost, uniform_points
from curator.divergences.schedule import Schedule, public_diameter, published
from curator.divergences.sinkhorn import (
    DenseSinkhorn,
    TransportSolver,
    masked_points,
    private_half,
    public_half,
)
from curator.privacy.batches import ImageSpace

NUM_CLASSES = 10
REG, L1_WEIGHT, LABEL_SCALE = 0.05, 1.0, 15.0
Transport = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From weights and points of two clouds to the entropic cost."""

_POT_UPDATES = 13  # of each potential, as many as the published schedule has


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Problem:
    """One batch of generated images and one padded private batch, in float64."""

    images_ND: Tensor
    labels_N: Tensor
    records_MD: Tensor
    record_labels_M: Tensor
    mask_M: Tensor
    cost: LabelledCost
    schedule: Schedule

    def in_single_precision(self) -> Problem:
        """Return the same problem in float32, as the mechanism meets it."""
        return replace(self, images_ND=self.images_ND.float(), records_MD=self.records_MD.float())

    def gradient(self, solver: TransportSolver) -> Tensor:
        """Return the gradient as the mechanism computes it, before it is clipped.

        Args:
            solver: One of the bodies; it computes in the dtype of the images.
        """
        private = private_half(
            solver,
            uniform_points(self.images_ND, self.labels_N),
            masked_points(self.records_MD, self.record_labels_M, self.mask_M),
            self.mask_M,
        )
        return private + public_half(solver, self.images_ND, self.labels_N, len(self.images_ND))


def published_problem(
    *, rows: int = 50, real: int = 50, capacity: int = 96, dimension: int = 784
) -> Problem:
    """Return a problem of the published cost and schedule, the same at every call.

    Args:
        rows: Generated images; all of them serve both terms.
        real: Sampled records.
        capacity: Rows of the padded batch.
        dimension: Pixels.
    """
    generator = torch.Generator().manual_seed(1)
    space = ImageSpace(
        channels=1, height=1, width=dimension, max_level=255, num_classes=NUM_CLASSES
    )
    records = torch.rand((capacity, dimension), generator=generator, dtype=torch.float64) * 2 - 1
    mask = torch.arange(capacity) < real
    return Problem(
        images_ND=torch.rand((rows, dimension), generator=generator, dtype=torch.float64) * 2 - 1,
        labels_N=torch.arange(rows) % NUM_CLASSES,
        records_MD=records * mask.unsqueeze(1),
        record_labels_M=torch.arange(capacity) % NUM_CLASSES * mask,
        mask_M=mask,
        cost=LabelledCost(l1_weight=L1_WEIGHT, label_scale=LABEL_SCALE),
        schedule=published(public_diameter(space, LABEL_SCALE), REG),
    )


def contenders(problem: Problem) -> dict[str, Callable[[], Tensor]]:
    """Return what computes the gradient in float32, by name; POT if it is installed.

    Args:
        problem: To be solved.
    """
    from curator.divergences.compiled import CompiledSinkhorn  # imports numba

    dense = DenseSinkhorn(cost=problem.cost, schedule=problem.schedule)
    compiled = CompiledSinkhorn(cost=problem.cost, schedule=problem.schedule)
    single = problem.in_single_precision()
    found: dict[str, Callable[[], Tensor]] = {
        "weir torch": lambda: single.gradient(dense),
        "weir numba": lambda: single.gradient(compiled),
        "geomloss": _of_loss(problem, _geomloss(problem)),
        "geomloss padded": _of_loss(problem, _geomloss(problem), keeps_padding=True),
    }
    if find_spec("ot") is not None:
        found["pot"] = _of_loss(problem, _pot)
    return found


def reference(problem: Problem) -> Tensor:
    """Return the gradient in float64.

    Args:
        problem: To be solved.
    """
    solver = DenseSinkhorn(cost=problem.cost, schedule=problem.schedule)
    return problem.gradient(solver)


def _of_loss(
    problem: Problem, transport: Transport, *, keeps_padding: bool = False
) -> Callable[[], Tensor]:
    """Return the gradient of 2 W(X, Y) - W(X, X) by autograd; points carry scaled labels."""
    images = problem.images_ND.to(torch.float32)
    kept = problem.mask_M | keeps_padding
    real = problem.records_MD[kept].to(torch.float32)
    labels = _one_hot(problem.labels_N)
    records = torch.cat([real, _one_hot(problem.record_labels_M[kept])], 1)
    shares = problem.mask_M[kept].float() / problem.mask_M.sum()
    uniform = torch.full((len(images),), 1 / len(images))

    def gradient() -> Tensor:
        leaf = images.clone().requires_grad_()
        samples = torch.cat([leaf, labels], 1)
        to_records = transport(uniform, samples, shares, records)
        loss = 2 * to_records - transport(uniform, samples, uniform, samples)
        return torch.autograd.grad(loss, leaf)[0]

    return gradient


def _one_hot(labels: Tensor) -> Tensor:
    return LABEL_SCALE * torch.nn.functional.one_hot(labels, NUM_CLASSES).float()


def _pair_cost(first: Tensor, second: Tensor) -> Tensor:
    """Return the labelled cost of points that carry their labels, for any leading axes."""
    squares = first.square().sum(-1).unsqueeze(-1) + second.square().sum(-1).unsqueeze(-2)
    squares = squares - 2 * first @ second.transpose(-1, -2)
    return squares + L1_WEIGHT * torch.cdist(first, second, p=1)


def _geomloss(problem: Problem) -> Transport:
    from geomloss import SamplesLoss

    loss: Transport = SamplesLoss(
        "sinkhorn",
        p=1,
        blur=REG,
        diameter=problem.schedule.temperatures[0],
        scaling=0.5,
        debias=False,
        cost=_pair_cost,
        backend="tensorized",
    )
    return loss


def _pot(first_weights: Tensor, first: Tensor, second_weights: Tensor, second: Tensor) -> Tensor:
    import ot

    cost = _pair_cost(first, second)
    plan = ot.sinkhorn(
        first_weights,
        second_weights,
        cost.detach(),
        REG,
        method="sinkhorn_log",
        numItermax=_POT_UPDATES,
        warn=False,
    )
    total: Tensor = (plan * cost).sum()
    return total
