"""The two halves of the loss gradient."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor

from curator.divergences import sinkhorn
from curator.divergences.cost import LabelledCost, uniform_points
from curator.divergences.schedule import converged, published
from curator.divergences.sinkhorn import (
    DenseSinkhorn,
    masked_points,
    private_half,
    public_half,
    transport_cost,
)

COST = LabelledCost(l1_weight=0.7, label_scale=1.5)
QUICK = DenseSinkhorn(cost=COST, schedule=published(6.0, 0.05))
EXACT = DenseSinkhorn(cost=COST, schedule=converged(6.0, 1.0))


def images(num_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(num_rows, 4, dtype=torch.float64, generator=generator) * 2 - 1
    return pixels, torch.randint(0, 3, (num_rows,), generator=generator)


@pytest.mark.parametrize("mask", [torch.zeros(5, dtype=torch.bool), torch.arange(5) < 1])
def test_an_empty_batch_gives_zero_through_the_same_computation(mask: Tensor) -> None:
    x, labels = images(4, 0)
    y, private_labels = images(5, 1)
    rows = private_half(
        QUICK, uniform_points(x, labels), masked_points(y, private_labels, mask), mask
    )
    assert rows.isfinite().all()
    assert bool(rows.count_nonzero() > 0) == bool(mask.any())


def test_no_private_type_reaches_the_public_half() -> None:
    names = set(inspect.signature(sinkhorn.public_half).parameters)
    assert names == {"solver", "images_ND", "labels_N", "num_samples"}


@pytest.mark.parametrize("num_samples", [2, 3, 4])
def test_halves_add_up_to_the_gradient_of_the_loss(num_samples: int) -> None:
    x, labels = images(4, 0)
    y, private_labels = images(5, 1)
    mask = torch.tensor([True, True, False, True, True])
    records = masked_points(y, private_labels, mask)
    rows = public_half(EXACT, x, labels, num_samples)
    rows[:num_samples] += private_half(
        EXACT, uniform_points(x[:num_samples], labels[:num_samples]), records, mask
    )

    def loss(moved: Tensor) -> Tensor:
        start = 4 - num_samples
        first = uniform_points(moved[:num_samples], labels[:num_samples])
        second = uniform_points(moved[start:], labels[start:])
        terms = [
            transport_cost(
                COST.matrix(first, other),
                first.log_weights_N,
                other.log_weights_N,
                EXACT.schedule,
            )
            for other in (records, second)
        ]
        return 2 * terms[0] - terms[1]

    direction = torch.zeros_like(x)
    direction[0, 1], direction[-1, 2], direction[1, 0] = 1.0, -2.0, 0.5
    step = 1e-5
    slope = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    assert abs(float(slope - (rows * direction).sum())) < 1e-6


def test_rows_of_two_independent_halves_do_not_mix() -> None:
    x, labels = images(4, 0)
    rows = public_half(QUICK, x, labels, 2)
    first, second = QUICK.both_gradients(
        uniform_points(x[:2], labels[:2]), uniform_points(x[2:], labels[2:])
    )
    assert torch.equal(rows, -torch.cat((first, second)))
