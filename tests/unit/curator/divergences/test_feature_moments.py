"""Rows about a centre: exact, bounded, and their records' own; directions and radius."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from curator.divergences import feature_moments
from curator.divergences.feature_maps import ROW_UNITS
from curator.divergences.feature_moments import (
    MAX_DIRECTIONS,
    Centres,
    longest,
    spread_radius,
    subspace,
    symmetric,
)
from curator.divergences.feature_nets import MAX_PUBLIC_FEATURES

WIDTH, CLASSES = 9, 4


def rows_of(count: int = 50, seed: int = 0) -> Tensor:
    """Return integers of norm at most `ROW_UNITS` with a class below each."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn((count, WIDTH), generator=generator, dtype=torch.float64)
    unit = torch.trunc(drawn / drawn.norm(dim=1, keepdim=True) * (ROW_UNITS - 1))
    labels = torch.randint(0, CLASSES, (count, 1), generator=generator)
    return torch.cat((unit, labels), dim=1).to(torch.int16)


def means(seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((CLASSES, WIDTH), generator=generator, dtype=torch.float64) * 0.2


def test_no_sum_can_be_inexact() -> None:
    largest_difference = 2 * ROW_UNITS
    assert MAX_PUBLIC_FEATURES * largest_difference**2 < 2**53
    direction = round(1 / feature_moments._DIRECTION_STEP)
    assert MAX_PUBLIC_FEATURES * largest_difference * direction < 2**53


@pytest.mark.parametrize("radius", [0.05, 0.7, 2.0])
def test_rows_about_a_centre_do_not_know_their_companions(radius: float) -> None:
    centres, given = Centres.of(means(), radius), rows_of()
    directions = subspace(means(), 5, seed=3)
    whole, products = centres.rows(given), centres.product_rows(given, directions)
    assert bool((whole.norm(dim=1) <= 1).all())
    assert bool((products.norm(dim=1) <= 1).all())
    for kept in (torch.arange(49, -1, -1), torch.tensor([7]), torch.tensor([3, 3, 30])):
        assert torch.equal(centres.rows(given[kept]), whole[kept])
        assert torch.equal(centres.product_rows(given[kept], directions), products[kept])


def test_rows_are_cut_at_the_radius_and_no_sooner() -> None:
    given = rows_of()
    apart = given[:, :-1].double() / ROW_UNITS - means()[given[:, -1].long()]
    for radius in (0.3, 1.0, 2.0):
        expected = apart / apart.norm(dim=1, keepdim=True).clamp_min(radius)
        found = Centres.of(means(), radius).rows(given)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)


def test_products_are_those_of_coordinates() -> None:
    centres, given = Centres.of(means(), 0.8), rows_of()
    directions = subspace(means(), 4, seed=3)
    inside = centres.rows(given) @ directions / longest(directions)
    found = symmetric(centres.product_rows(given, directions), 4)
    torch.testing.assert_close(found, inside.unsqueeze(2) * inside.unsqueeze(1), rtol=0, atol=1e-7)
    norms = centres.product_rows(given, directions).norm(dim=1)
    torch.testing.assert_close(norms, inside.square().sum(dim=1), rtol=0, atol=1e-7)


def test_a_class_that_does_not_exist_has_some_row_that_nobody_counts() -> None:
    given = rows_of(3)
    given[0, -1], given[1, -1] = -1, CLASSES
    assert bool(Centres.of(means(), 1.0).rows(given).isfinite().all())


@pytest.mark.parametrize("num_directions", [1, 5, WIDTH])
def test_directions_hold_what_tells_classes_apart(num_directions: int) -> None:
    directions = subspace(means(), num_directions, seed=3)
    assert directions.shape == (WIDTH, num_directions)
    eye = torch.eye(num_directions, dtype=torch.float64)
    torch.testing.assert_close(directions.T @ directions, eye, rtol=0, atol=1e-3)
    if num_directions >= CLASSES - 1:
        centred = means() - means().mean(dim=0)
        torch.testing.assert_close(centred @ directions @ directions.T, centred, rtol=0, atol=1e-3)
    assert not torch.equal(directions, subspace(means(), num_directions, seed=4)) or (
        num_directions < CLASSES
    )


def test_directions_lengthen_nothing_once_they_are_divided() -> None:
    wide = torch.randn((3, 300), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    directions = subspace(wide, MAX_DIRECTIONS, seed=1)
    assert float(torch.linalg.matrix_norm(directions / longest(directions), ord=2)) <= 1 + 1e-12
    assert longest(directions) < 1.01


def test_the_radius_is_how_far_rows_are_from_their_mean() -> None:
    given = rows_of(4000)
    rows, labels = given[:, :-1].double() / ROW_UNITS, given[:, -1].long()
    found = torch.stack([rows[labels == one].mean(dim=0) for one in range(CLASSES)])
    counts = torch.bincount(labels).double()
    apart = float((rows - found[labels]).square().sum(dim=1).mean().sqrt())
    zeros = torch.zeros(CLASSES, dtype=torch.float64)
    assert spread_radius(found, counts, zeros, 1.0) == pytest.approx(apart, rel=1e-3)
    assert spread_radius(found, counts, zeros, 0.5) == pytest.approx(apart / 2, rel=1e-3)
    noise = torch.randn(found.shape, generator=torch.Generator().manual_seed(2)).double() * 0.3
    noisy, variances = found + noise, torch.full((CLASSES,), 0.09, dtype=torch.float64)
    assert spread_radius(noisy, counts, variances, 1.0) == pytest.approx(apart, rel=0.2)
    assert spread_radius(100 * noise, counts, zeros, 1.0) == 2.0**-6  # whatever the noise says
    assert spread_radius(zeros.reshape(-1, 1), counts, zeros, 8.0) == 2.0


def test_symmetric_matrices_come_back() -> None:
    matrix = means() @ means().T
    first, second = torch.triu_indices(CLASSES, CLASSES)
    weights = torch.where(first == second, 1.0, math.sqrt(2)).double()
    found = symmetric((matrix[first, second] * weights).unsqueeze(0), CLASSES)
    torch.testing.assert_close(found[0], matrix)
