"""The dense solver: against geomloss, against finite differences, and what must change nothing."""

from __future__ import annotations

import pytest
import torch
from geomloss import SamplesLoss
from torch import Tensor

from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.schedule import Schedule, converged, published
from curator.divergences.sinkhorn import (
    DenseSinkhorn,
    anneal,
    masked_points,
    softmin,
    transport_cost,
)

COST = LabelledCost(l1_weight=0.7, label_scale=1.5)


def points(num_points: int, seed: int) -> WeightedPoints:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_points, 4, dtype=torch.float64, generator=generator) * 2 - 1
    return uniform_points(images, torch.randint(0, 3, (num_points,), generator=generator))


def moved(cloud: WeightedPoints, images_ND: Tensor) -> WeightedPoints:
    return WeightedPoints(
        images_ND=images_ND, labels_N=cloud.labels_N, log_weights_N=cloud.log_weights_N
    )


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


def test_published_schedule_equals_geomloss_with_the_same_diameter() -> None:
    first, second = points(9, 0), points(7, 1)
    solver = DenseSinkhorn(cost=COST, schedule=published(6.0, 0.05))
    u, v = (cloud.images_ND.clone().requires_grad_() for cloud in (first, second))

    def literal(x_BND: Tensor, y_BMD: Tensor) -> Tensor:
        labels = (
            (first.labels_N, second.labels_N)
            if x_BND.shape[1] == 9
            else (second.labels_N, first.labels_N)
        )
        step = x_BND.unsqueeze(2) - y_BMD.unsqueeze(1)
        differs = labels[0].unsqueeze(1) != labels[1]
        images = step.square().sum(-1) + COST.l1_weight * step.abs().sum(-1)
        return images + COST.label_gap * differs

    loss = SamplesLoss(
        "sinkhorn",
        p=1,
        blur=0.05,
        scaling=0.5,
        diameter=6.0,
        debias=False,
        cost=literal,
        backend="tensorized",
    )
    with torch.enable_grad():
        expected = torch.autograd.grad(loss(u, v), (u, v))
    actual = solver.both_gradients(first, second)
    assert relative_error(actual[0], expected[0]) < 1e-6
    assert relative_error(actual[1], expected[1]) < 1e-6
    assert torch.equal(actual[0], solver.first_gradient(first, second))


def test_gradients_are_those_of_the_transport_cost() -> None:
    first, second = points(5, 0), points(4, 1)
    solver = DenseSinkhorn(cost=COST, schedule=converged(6.0, 1.0))
    rows = solver.both_gradients(first, second)
    step = 1e-5

    def value(u: Tensor, v: Tensor) -> Tensor:
        matrix = COST.matrix(moved(first, u), moved(second, v))
        return transport_cost(
            matrix, first.log_weights_N, second.log_weights_N, converged(6.0, 1.0)
        )

    for row, pixel in ((0, 1), (3, 2)):
        nudge = torch.zeros_like(first.images_ND)
        nudge[row, pixel] = step
        u, v = first.images_ND, second.images_ND
        by_first = (value(u + nudge, v) - value(u - nudge, v)) / (2 * step)
        by_second = (value(u, v + nudge[:4]) - value(u, v - nudge[:4])) / (2 * step)
        assert abs(float(by_first - rows[0][row, pixel])) < 1e-6
        assert abs(float(by_second - rows[1][row, pixel])) < 1e-6


@pytest.mark.parametrize("schedule", [published(6.0, 0.05), converged(6.0, 1.0)])
def test_a_cloud_against_itself_gets_the_rows_of_both_arguments(schedule: Schedule) -> None:
    cloud = points(5, 0)
    solver = DenseSinkhorn(cost=COST, schedule=schedule)
    first, second = solver.both_gradients(cloud, cloud)
    torch.testing.assert_close(solver.self_gradient(cloud), first + second)


def test_converged_potentials_meet_both_marginals() -> None:
    first, second = points(6, 0), points(5, 1)
    matrix = COST.matrix(first, second)
    weights = (first.log_weights_N, second.log_weights_N)
    ends = anneal(matrix, *weights, converged(6.0, 0.1))
    f, g = ends.first_N.unsqueeze(1), ends.second_M
    plan = (weights[0].unsqueeze(1) + weights[1] + (f + g - matrix) / 0.1).exp()
    torch.testing.assert_close(plan.sum(1), weights[0].exp(), rtol=1e-6, atol=0)
    torch.testing.assert_close(plan.sum(0), weights[1].exp(), rtol=1e-6, atol=0)


def test_padding_changes_nothing_whatever_it_holds() -> None:
    first, second = points(6, 0), points(5, 1)
    padding = torch.tensor([[9.0, -3.0, 0.0, 1.0]], dtype=torch.float64).expand(4, 4)
    padded = masked_points(
        torch.cat((second.images_ND, padding)),
        torch.cat((second.labels_N, torch.zeros(4, dtype=torch.int64))),
        torch.arange(9) < 5,
    )
    for schedule in (published(6.0, 0.05), converged(6.0, 0.5)):
        solver = DenseSinkhorn(cost=COST, schedule=schedule)
        plain, wide = solver.both_gradients(first, second), solver.both_gradients(first, padded)
        torch.testing.assert_close(wide[0], plain[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(wide[1][:5], plain[1], rtol=1e-10, atol=1e-12)
        assert wide[1][5:].count_nonzero() == 0


def test_renaming_the_labels_changes_nothing() -> None:
    first, second = points(6, 0), points(5, 1)
    names = torch.tensor([2, 0, 1])
    renamed = [
        WeightedPoints(
            images_ND=cloud.images_ND,
            labels_N=names[cloud.labels_N],
            log_weights_N=cloud.log_weights_N,
        )
        for cloud in (first, second)
    ]
    solver = DenseSinkhorn(cost=COST, schedule=published(6.0, 0.05))
    assert torch.equal(
        solver.first_gradient(first, second), solver.first_gradient(renamed[0], renamed[1])
    )


def test_identical_clouds_give_a_finite_gradient() -> None:
    cloud = uniform_points(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))
    solver = DenseSinkhorn(cost=COST, schedule=published(6.0, 0.05))
    assert solver.first_gradient(cloud, cloud).isfinite().all()


def test_softmin_of_a_single_row_is_its_cost_less_its_potential() -> None:
    cost = torch.tensor([[3.0, 5.0]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    torch.testing.assert_close(softmin(cost, one, 0 * one, 0.1), cost[0] - 1)
