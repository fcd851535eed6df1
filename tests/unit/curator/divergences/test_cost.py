"""The labelled cost against a literal one-hot computation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.divergences import cost as cost_module
from curator.divergences.cost import (
    LabelledCost,
    WeightedPoints,
    branchless_sign_sums,
    sign_sums,
    uniform_points,
)

COSTS = [
    LabelledCost(l1_weight=0.0, label_scale=15.0),
    LabelledCost(l1_weight=1.5, label_scale=2.0),
]


def points(num_points: int, seed: int) -> WeightedPoints:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_points, 5, dtype=torch.float64, generator=generator) * 2 - 1
    return uniform_points(images, torch.randint(0, 3, (num_points,), generator=generator))


def literal_cost(cost: LabelledCost, first: WeightedPoints, second: WeightedPoints) -> Tensor:
    u, v = (
        torch.cat((cloud.images_ND, cost.label_scale * one_hot(cloud.labels_N, 3)), dim=1)
        for cloud in (first, second)
    )
    step = u.unsqueeze(1) - v
    return step.square().sum(2) + cost.l1_weight * step.abs().sum(2)


@pytest.mark.parametrize("cost", COSTS)
def test_matrix_is_the_cost_of_images_joined_with_one_hot_labels(cost: LabelledCost) -> None:
    first, second = points(7, 0), points(4, 1)
    torch.testing.assert_close(cost.matrix(first, second), literal_cost(cost, first, second))


@pytest.mark.parametrize("cost", COSTS)
def test_gradient_matches_autograd_of_the_literal_cost(cost: LabelledCost) -> None:
    first, second = points(7, 0), points(4, 1)
    plan = torch.rand(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    images = first.images_ND.clone().requires_grad_()
    moving = WeightedPoints(
        images_ND=images, labels_N=first.labels_N, log_weights_N=first.log_weights_N
    )
    (expected,) = torch.autograd.grad((plan * literal_cost(cost, moving, second)).sum(), images)
    torch.testing.assert_close(cost.gradient(plan, first.images_ND, second.images_ND), expected)


@pytest.mark.parametrize("sums", [sign_sums, branchless_sign_sums])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sign_sums_is_a_weighted_sum_of_signs_and_ties_count_nothing(
    dtype: torch.dtype, sums: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> None:
    generator = torch.Generator().manual_seed(3)
    u = torch.randint(-2, 3, (6, 9), generator=generator).to(dtype)
    v = torch.randint(-2, 3, (5, 9), generator=generator).to(dtype)
    plan = torch.rand(5, 6, dtype=dtype, generator=generator).T  # not contiguous
    signs = torch.sign(u.unsqueeze(1) - v)
    torch.testing.assert_close(sums(plan, u, v), (plan.unsqueeze(2) * signs).sum(1))
    near = 1e-6 * signs.sum(1)  # as near as pixels can be
    torch.testing.assert_close(sums(plan, near, 0 * v), plan.sum(1, keepdim=True) * near.sign())


@pytest.mark.parametrize("capability", ["DEFAULT", "NO AVX", "SVE256", "AVX2", "AVX512", "new"])
def test_torch_s_kernel_is_called_only_where_it_is_known_not_to_branch(
    capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of torch call one and the same processor DEFAULT, or NO AVX."""
    called: list[str] = []

    def branchless(plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
        called.append("branchless")
        return branchless_sign_sums(plan_NM, first_ND, second_MD)

    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(cost_module, "branchless_sign_sums", branchless)
    signs = sign_sums(torch.ones(1, 2), torch.zeros(1, 3), torch.tensor([[1.0, 0.0, -1.0]] * 2))
    assert signs.tolist() == [[-2.0, 0.0, 2.0]]
    assert called == ([] if capability.startswith("AVX") else ["branchless"])


def test_equal_images_never_cost_less_than_nothing() -> None:
    cloud = uniform_points(torch.full((3, 784), 0.1), torch.zeros(3, dtype=torch.int64))
    assert (COSTS[0].matrix(cloud, cloud) >= 0).all()
