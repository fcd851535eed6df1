from __future__ import annotations

import itertools

import pytest
import torch

from curator.divergences.sliced import (
    clip_rows,
    clip_rows_gradient,
    sliced_distance,
    sliced_gradient,
)


def cloud(rows: int, columns: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((rows, columns), generator=generator, dtype=torch.float64)


def test_sorting_finds_the_best_of_all_couplings() -> None:
    first, second = cloud(5, 3, 0), cloud(5, 3, 1)
    for column in range(3):
        best = min(
            float((first[:, column] - second[list(order), column]).square().mean())
            for order in itertools.permutations(range(5))
        )
        one = sliced_distance(first[:, [column]], second[:, [column]])
        assert float(one) == pytest.approx(best, rel=1e-12)


def test_the_gradient_is_that_of_the_distance() -> None:
    first, second = cloud(7, 4, 2).requires_grad_(), cloud(7, 4, 3)
    (wanted,) = torch.autograd.grad(sliced_distance(first, second), first)
    torch.testing.assert_close(sliced_gradient(first.detach(), second), wanted)


def test_equal_clouds_are_at_distance_zero_with_gradient_zero() -> None:
    rows = cloud(6, 3, 4)
    assert float(sliced_distance(rows, rows.flip(0))) == 0
    assert float(sliced_gradient(rows, rows.flip(0)).abs().max()) == 0


def test_ties_give_finite_gradients() -> None:
    assert sliced_gradient(torch.zeros(4, 2), torch.zeros(4, 2)).isfinite().all()
    assert sliced_gradient(torch.zeros(4, 2), torch.ones(4, 2)).equal(torch.full((4, 2), -0.25))


def test_the_order_of_rows_does_not_matter() -> None:
    first, second = cloud(6, 3, 5), cloud(6, 3, 6)
    torch.testing.assert_close(
        sliced_gradient(first, second), sliced_gradient(first, second[torch.randperm(6)])
    )


def test_rows_are_clipped_and_short_ones_are_not_touched() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    wanted = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(clip_rows(rows, 1.0), wanted)


def test_the_gradient_goes_through_the_clip() -> None:
    rows = (cloud(5, 4, 7) * torch.tensor([[0.1], [3], [1], [10], [0.01]])).requires_grad_()
    weights = cloud(5, 4, 8)
    (wanted,) = torch.autograd.grad((clip_rows(rows, 1.5) * weights).sum(), rows)
    torch.testing.assert_close(clip_rows_gradient(rows.detach(), 1.5, weights), wanted)


def test_a_row_of_zeros_has_a_finite_gradient() -> None:
    weights = torch.ones(1, 3, dtype=torch.float64)
    zeros = torch.zeros(1, 3, dtype=torch.float64)
    assert clip_rows_gradient(zeros, 1.0, weights).equal(weights)
