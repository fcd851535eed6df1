"""The online solver: refused clearly without pykeops, equal to the dense one with it."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from curator.divergences.cost import LabelledCost, uniform_points
from curator.divergences.large import OnlineSinkhorn, OnlineSolverMissing, fits_dense
from curator.divergences.schedule import published
from curator.divergences.sinkhorn import DenseSinkhorn, masked_points

COST = LabelledCost(l1_weight=0.7, label_scale=3.0)


def test_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OnlineSolverMissing, match="pip install pykeops"):
        OnlineSinkhorn(COST, diameter=6.0, reg=0.5)


def test_public_sizes_decide() -> None:
    assert fits_dense(50, 96)
    assert not fits_dense(1 << 12, (1 << 10) + 1)


@pytest.mark.skipif(
    importlib.util.find_spec("pykeops") is None, reason="pykeops is not installed (optional)"
)
def test_online_equals_dense() -> None:  # compiles at first use: seconds
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(2, 30, 6, dtype=torch.float64, generator=generator) * 2 - 1
    labels = torch.arange(30) % 3
    first, second = uniform_points(x, labels), masked_points(y, labels, torch.arange(30) < 20)
    with torch.no_grad():
        online = OnlineSinkhorn(COST, diameter=12.0, reg=0.5).both_gradients(first, second)
        assert not torch.is_grad_enabled()
    dense = DenseSinkhorn(cost=COST, schedule=published(12.0, 0.5)).both_gradients(first, second)
    for actual, expected in zip(online, dense, strict=True):
        assert float((actual - expected).norm() / expected.norm()) < 1e-6
