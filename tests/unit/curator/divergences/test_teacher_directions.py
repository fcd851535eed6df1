"""Directions of length 1 on projections, their bins, and the way back."""

from __future__ import annotations

import math

import pytest
import torch

from curator.divergences.critics import public_normals
from curator.divergences.teachers import (
    back_projected,
    bins_of,
    middles_of_winners,
    projected_directions,
)


def test_directions_have_length_one_whatever_the_slopes() -> None:
    slopes = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    found = projected_directions(slopes * 7, torch.eye(6))
    torch.testing.assert_close(found, slopes / slopes.norm(dim=2, keepdim=True))
    assert not projected_directions(torch.zeros(1, 1, 6), torch.eye(6)).any()


def test_a_slope_that_is_not_finite_spoils_its_own_image_only() -> None:
    slopes = torch.ones(2, 2, 3)
    slopes[0, 1, 2] = math.nan
    finite = projected_directions(slopes, torch.ones(3, 2)).isfinite()
    assert finite.tolist() == [[[True, True], [False, False]], [[True, True], [True, True]]]


def test_bins_are_equal_parts() -> None:
    values = torch.tensor([-9.0, -2.0, -1.01, -0.99, 0.0, 0.99, 1.01, 1.99, 2.0, 9.0])
    assert bins_of(values, 2.0, 4).tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 3, 3]
    broken = torch.tensor([math.nan, math.inf, -math.inf])
    assert bins_of(broken, 2.0, 4).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("num_bins", [2, 3, 10])
def test_the_middle_of_a_bin_is_in_it(num_bins: int) -> None:
    counts = torch.eye(num_bins, dtype=torch.float64) * 3 - 1
    middles = middles_of_winners(counts, 1.5)
    assert bins_of(middles, 1.5, num_bins).tolist() == list(range(num_bins))
    torch.testing.assert_close(middles, -middles.flip(0))
    assert float(middles.max()) == pytest.approx(1.5 * (1 - 1 / num_bins))


def test_the_way_back_is_the_direction_in_expectation() -> None:
    """Over 20,000 projections; each entry has a standard error below 2^0.5 |d| / 141."""
    direction = torch.tensor([[0.6, -0.8, 0.0]])
    projection = public_normals(3, "test", 3 * 20_000).reshape(3, 20_000)
    found = back_projected(direction @ projection, projection)
    torch.testing.assert_close(found, direction, rtol=0, atol=5.4 * math.sqrt(2) / 141)
