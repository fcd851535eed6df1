"""Transport under a learnt cost: gradients, ascent, padding, and extractors for themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from curator.divergences import critic_training, feature_extractors
from curator.divergences.adam import Ensemble, adam_step
from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.critics import CriticShape, Parameters, initial_critics
from curator.divergences.feature_extractors import (
    FeatureCost,
    Generated,
    OwnRecords,
    ascend,
    features,
    losses,
    transport_gradients,
)
from curator.divergences.schedule import published
from curator.divergences.sinkhorn import DenseSinkhorn

K, M, N = 5, 6, 7
MLP = CriticShape(kind="mlp", width=4, channels=1, height=2, pixels_per_row=3, num_classes=3)
CONV = replace(MLP, kind="conv", width=2)
SHAPES = pytest.mark.parametrize("shape", [MLP, CONV], ids=["mlp", "conv"])
COST = FeatureCost(
    label_scale=2.0, feature_scale=1.5, temperatures=published(8.0, 0.5).temperatures
)


def extractors(shape: CriticShape, dtype: torch.dtype = torch.float64) -> Parameters:
    drawn = initial_critics(shape, K, 1)
    return {n: v.to(dtype) for n, v in drawn.items() if n not in {"score", "classes"}}


def drawn(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(size))
    return torch.rand(*size, generator=generator, dtype=torch.float64) * 2 - 1


def records() -> OwnRecords:
    """Return shards of 0, 1, 3, 6 and 6 records."""
    return OwnRecords(
        pixels_KMD=drawn(K, M, 6),
        labels_KM=torch.arange(K * M).reshape(K, M) % 3,
        mask_KM=torch.arange(M) < torch.tensor([0, 1, 3, 6, 6]).unsqueeze(1),
    )


def generated() -> Generated:
    return Generated(images_ND=drawn(N, 6), labels_N=torch.arange(N) % 3, num_samples=4)


def gradients(shape: CriticShape, own: Parameters, given: OwnRecords) -> Tensor:
    return torch.cat(list(transport_gradients(shape, COST, own, (given, generated()))))


def test_without_features_it_is_the_transport_of_pixels() -> None:
    plain = replace(COST, feature_scale=0.0)
    found = torch.cat(
        list(transport_gradients(MLP, plain, extractors(MLP), (records(), generated())))
    )
    cost = LabelledCost(l1_weight=0.0, label_scale=2.0)
    solver = DenseSinkhorn(cost=cost, schedule=published(8.0, 0.5))
    what, given = generated(), records()
    first = uniform_points(what.images_ND[:4], what.labels_N[:4])
    for k in (1, 2, 3):
        mask = given.mask_KM[k]
        weights = mask.double().log() - mask.double().sum().log()
        points = WeightedPoints(
            images_ND=given.pixels_KMD[k], labels_N=given.labels_KM[k], log_weights_N=weights
        )
        wanted = 2 * solver.first_gradient(first, points)
        second = uniform_points(what.images_ND[-4:], what.labels_N[-4:])
        wanted -= solver.first_gradient(first, second)
        torch.testing.assert_close(found[k, :3], wanted[:3], rtol=1e-6, atol=1e-8)


@SHAPES
def test_gradients_are_those_of_finite_differences_at_fixed_plans(
    shape: CriticShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, given, what = extractors(shape), records(), generated()
    found = gradients(shape, own, given)
    plans: list[Tensor] = []
    real = feature_extractors._plans

    def kept(cost: Tensor, weights: Tensor, temperatures: tuple[float, ...]) -> Tensor:
        if len(plans) < 2:
            plans.append(real(cost, weights, temperatures))
        return plans[0] if cost.shape == plans[0].shape else plans[1]

    monkeypatch.setattr(feature_extractors, "_plans", kept)
    images = what.images_ND.expand(K, -1, -1)
    losses(shape, COST, own, given, (images, what))
    for row, pixel in ((0, 2), (3, 5), (5, 0)):
        move = torch.zeros(K, N, 6, dtype=torch.float64)
        move[:, row, pixel] = 1e-6
        ends = [losses(shape, COST, own, given, (images + s * move, what)) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / 2e-6
        torch.testing.assert_close(found[:, row, pixel], slope, rtol=1e-4, atol=1e-6)


def test_plans_move_equal_masses_and_nothing_to_padding() -> None:
    mask = records().mask_KM
    weights = feature_extractors._log_weights(mask, torch.float64)
    plans = feature_extractors._plans(drawn(K, 4, M) + 1, weights, COST.temperatures)
    torch.testing.assert_close(plans.sum(dim=2), torch.full((K, 4), 0.25, dtype=torch.float64))
    assert float(plans[1:].masked_select(~mask[1:].unsqueeze(1)).max()) < 1e-30


@SHAPES
def test_ascent_raises_each_loss(shape: CriticShape) -> None:
    own, given, what = Ensemble.start(extractors(shape)), records(), generated()
    images = what.images_ND.expand(K, -1, -1)
    before = losses(shape, COST, own.critics, given, (images, what))
    for _ in range(30):
        own = ascend(shape, COST, 0.01, own, (given, what))
    after = losses(shape, COST, own.critics, given, (images, what))
    assert bool((after[1:] > before[1:]).all())
    assert own.num_updates == 30


@SHAPES
def test_features_have_length_one(shape: CriticShape) -> None:
    own = {name: value[0] for name, value in extractors(shape).items()}
    lengths = features(shape, own, drawn(9, 6)).norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(9, dtype=torch.float64), rtol=0, atol=1e-4)
    dead = {name: torch.zeros_like(value) for name, value in own.items()}
    assert not features(shape, dead, drawn(9, 6)).any()


@SHAPES
def test_extractors_stay_apart(shape: CriticShape, monkeypatch: pytest.MonkeyPatch) -> None:
    own, given = extractors(shape, torch.float32), records()
    given = replace(given, pixels_KMD=given.pixels_KMD.float())
    what = replace(generated(), images_ND=generated().images_ND.float())

    def both(parameters: Parameters, shards: OwnRecords) -> tuple[Tensor, Tensor]:
        after = ascend(shape, COST, 0.1, Ensemble.start(parameters), (shards, what))
        parts = transport_gradients(shape, COST, after.critics, (shards, what))
        return torch.cat(list(parts)), after.critics["weight0"]

    whole = both(own, given)
    broken = {name: value.clone() for name, value in own.items()}
    broken["weight1"][2] = torch.nan
    other = replace(given, pixels_KMD=given.pixels_KMD.clone())
    other.pixels_KMD[2] = 1.0
    for changed in (both(broken, given), both(own, other)):
        for one, two in zip(whole, changed, strict=True):
            assert torch.equal(one[[0, 1, 3, 4]], two[[0, 1, 3, 4]])
            assert not torch.equal(one[2], two[2])
    monkeypatch.setattr(critic_training.chunks, "__defaults__", (2,))
    for one, two in zip(whole, both(own, given), strict=True):
        torch.testing.assert_close(one, two)


def test_steps_are_those_of_adam() -> None:
    start = {"weight": drawn(3, 4)}
    slopes = [{"weight": drawn(4, 3).T.contiguous() * factor} for factor in (1, -3, 0.2)]
    found = Ensemble.start(start)
    wanted = start["weight"].clone().requires_grad_()
    adam = torch.optim.Adam([wanted], lr=0.01, betas=(0.5, 0.9))
    for one in slopes:
        found = adam_step(found, one, 0.01, (0.5, 0.9))
        wanted.grad = one["weight"].clone()
        adam.step()
    torch.testing.assert_close(found.critics["weight"], wanted.detach(), rtol=1e-6, atol=1e-8)
