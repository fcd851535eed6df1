"""Which candidates go on: votes below a threshold are none, the rest decide how often."""

from __future__ import annotations

import pytest
import torch

from analyst.evolution.choice import drawn, shares

LABELS = torch.tensor([0, 0, 0, 1, 1, 1])


def test_votes_above_the_threshold_are_shared_out_in_each_class() -> None:
    votes = torch.tensor([6.0, 2.0, 1.9, -3.0, 4.0, 4.0])
    found = shares(votes, LABELS, 2.0)
    assert found.tolist() == [0.75, 0.25, 0.0, 0.0, 0.5, 0.5]


def test_a_class_without_such_votes_takes_positive_ones_or_all_alike() -> None:
    votes = torch.tensor([1.0, 3.0, -9.0, -1.0, -2.0, 0.0])
    found = shares(votes, LABELS, 5.0)
    assert found[:3].tolist() == [0.25, 0.75, 0.0]
    assert found[3:].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("count", [1, 7, 40])
def test_candidates_come_as_often_as_their_share_up_to_rounding(count: int) -> None:
    of = torch.tensor([0.0, 0.5, 0.1, 0.0, 0.39, 0.01], dtype=torch.float64)
    for seed in range(20):
        found = drawn(of, count, torch.Generator().manual_seed(seed))
        times = torch.bincount(found, minlength=6)
        assert len(found) == count
        assert bool(((times - count * of).abs() < 1).all())
        assert times[0] == times[3] == 0


def test_on_average_they_come_in_proportion() -> None:
    """4,000 draws of one: a false alarm has probability below 1e-6 (5 standard errors)."""
    of = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    randomness = torch.Generator().manual_seed(1)
    times = torch.zeros(3)
    for _ in range(4000):
        times[drawn(of, 1, randomness)] += 1
    assert torch.allclose(times / 4000, of.float(), atol=5 * (0.25 / 4000) ** 0.5)
