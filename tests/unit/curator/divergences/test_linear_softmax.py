"""The factors of a softmax gradient in integers: exact, bounded, and each record's own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from curator.divergences import linear_softmax
from curator.divergences.linear_softmax import (
    FEATURE_STEP,
    LARGEST_WEIGHT,
    LEAST_SPREAD,
    MAX_FEATURES,
    indicators,
    moment_rows,
    pixel_integers,
    residuals,
    scattering_integers,
    unit_rows,
)
from curator.divergences.scattering import LARGEST_COEFFICIENT, Scattering
from curator.sanitizer.outer import LEFT_RADIUS, RIGHT_RADIUS

RADII = (LEFT_RADIUS, RIGHT_RADIUS)
SCATTERING = Scattering(channels=1, height=8, width=8)


def levels(count: int = 30, pixels: int = 64, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(0, 256, (count, pixels), generator=generator)
    made[0] = 0
    return made.to(torch.uint8)


def rows(of: Tensor) -> Tensor:
    return unit_rows(pixel_integers(of, 255), 0.5, RIGHT_RADIUS)


def linear(scale: float, width: int = 65, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand((5, width), generator=generator) * 2 - 1) * scale


def test_no_sum_can_be_inexact() -> None:
    exact = 2**53
    root = math.isqrt(MAX_FEATURES) + 1
    weight = round(LARGEST_WEIGHT / linear_softmax._WEIGHT_STEP)
    assert weight * RIGHT_RADIUS * root <= exact  # |w phi|_1 <= |w|_inf |phi|_2 sqrt(F)
    assert exact >= MAX_FEATURES * (1 << 16) ** 2
    size = MAX_FEATURES // linear_softmax.GROUPS_PER_CHANNEL + 1
    coarse = int(LARGEST_COEFFICIENT) >> linear_softmax._COARSER_BITS
    assert (size * coarse) ** 2 <= exact
    assert exact >= 10_000 * 2**linear_softmax._EXP_BITS
    squares = RIGHT_RADIUS**2 / linear_softmax._SQUARE_STEP  # of a row together
    assert exact >= squares**2


@pytest.mark.parametrize("scale", [0.3, 30.0, LARGEST_WEIGHT])
def test_factors_do_not_know_their_companions(scale: float) -> None:
    given, weights = levels(), linear(scale)
    labels = torch.arange(30) % 5
    made = rows(given)
    said = residuals(made, weights, labels, clip=0.3, radii=RADII)
    waves = scattering_integers(SCATTERING, given, 255)
    for kept in (torch.arange(29, -1, -1), torch.tensor([7]), torch.tensor([3, 3, 20])):
        assert torch.equal(rows(given[kept]), made[kept])
        assert torch.equal(
            residuals(made[kept], weights, labels[kept], clip=0.3, radii=RADII), said[kept]
        )
        assert torch.equal(scattering_integers(SCATTERING, given[kept], 255), waves[kept])


@pytest.mark.parametrize("clip", [0.05, 0.5, 2.0])
def test_they_multiply_to_the_clipped_gradient_of_the_cross_entropy(clip: float) -> None:
    """Against autograd in floats: one record at a time, then clipped."""
    made, weights, labels = rows(levels()), linear(8.0), torch.arange(30) % 5
    said = residuals(made, weights, labels, clip=clip, radii=RADII)
    for row, label, left in zip(made / RIGHT_RADIUS, labels, said, strict=True):
        moving = weights.double().requires_grad_()
        loss = cross_entropy((moving @ row).unsqueeze(0), label.unsqueeze(0))
        (slope,) = torch.autograd.grad(loss, moving)
        slope = slope * min(1.0, clip / float(slope.norm()))
        product = torch.outer(left * clip / LEFT_RADIUS, row)
        torch.testing.assert_close(product, slope, rtol=0, atol=2e-3)


def test_rows_have_norm_one_and_never_more() -> None:
    for integers in (
        pixel_integers(levels(), 255),
        scattering_integers(SCATTERING, levels(), 255),
        torch.full((1, 500), 2.0**16 - 1).double(),
    ):
        made = unit_rows(integers, 0.5, RIGHT_RADIUS)
        norms = made.square().sum(dim=1)
        assert bool((norms <= RIGHT_RADIUS**2).all())
        assert bool((norms >= (0.99 * RIGHT_RADIUS) ** 2).all())
        assert bool((made == made.trunc()).all())


@pytest.mark.parametrize("pixels", [64, 5000])
def test_moments_are_the_rows_their_squares_and_a_constant(pixels: int) -> None:
    """To the last integer, also where squares of numbers of long rows are small."""
    made = rows(levels(pixels=pixels))
    moments = moment_rows(made, RIGHT_RADIUS)
    assert bool((moments.square().sum(dim=1) <= RIGHT_RADIUS**2).all())
    phi = made / RIGHT_RADIUS
    squares = phi.square() / phi.square().norm(dim=1, keepdim=True)
    ones = torch.ones(30, 1).double()
    expected = torch.cat((phi, squares, ones), dim=1) / math.sqrt(3)
    torch.testing.assert_close(moments / RIGHT_RADIUS, expected, rtol=0, atol=2 / RIGHT_RADIUS)
    assert bool((moments[:, -1] == moments[0, -1]).all())
    kept = torch.tensor([3, 3, 20])
    assert torch.equal(moment_rows(made[kept], RIGHT_RADIUS), moments[kept])


def test_a_record_counts_for_its_class_alone() -> None:
    made = indicators(torch.tensor([2, 0, 3, -1]), 3, LEFT_RADIUS)
    assert made.tolist() == [[0, 0, LEFT_RADIUS], [LEFT_RADIUS, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_black_image_is_its_bias_alone() -> None:
    made = rows(levels())[0]
    assert made[:-1].count_nonzero() == 0
    assert float(made[-1]) == RIGHT_RADIUS - 1


def test_groups_of_scattering_maps_have_mean_zero_and_variance_one() -> None:
    made = scattering_integers(SCATTERING, levels(), 255) * FEATURE_STEP
    groups = made[1:].reshape(29, 27, -1)
    assert groups.shape[2] == 12
    torch.testing.assert_close(groups.mean(dim=2), torch.zeros(29, 27).double(), rtol=0, atol=1e-2)
    spread = groups.std(dim=2, correction=0)
    assert bool((spread < 1).all())
    assert float(spread.median()) > 1 - 30 * LEAST_SPREAD
    assert float(made[0].abs().max()) < 0.1  # black: flat groups are not blown up


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_weights_give_bounded_factors(sign: float) -> None:
    made = rows(levels())
    weights = torch.full((5, 65), LARGEST_WEIGHT)
    weights[1] *= sign
    said = residuals(made, weights, torch.ones(30, dtype=torch.int64), clip=0.3, radii=RADII)
    assert bool(said.isfinite().all())
    assert bool((said.square().sum(dim=1) <= LEFT_RADIUS**2).all())


def test_a_record_of_an_unknown_class_says_nothing() -> None:
    made, labels = rows(levels()), torch.arange(30) % 5
    labels[3], labels[4] = 5, -1
    said = residuals(made, linear(1.0), labels, clip=0.3, radii=RADII)
    assert (said.abs().sum(dim=1) == 0).nonzero().flatten().tolist() == [3, 4]


def test_a_sure_and_right_classifier_gets_no_gradient() -> None:
    made = rows(levels())
    labels = torch.zeros(30, dtype=torch.int64)
    weights = torch.zeros(5, 65)
    weights[0, -1] = weights[0, :-1] = LARGEST_WEIGHT
    said = residuals(made, weights, labels, clip=0.3, radii=RADII)
    assert float(said.abs().max()) <= LEFT_RADIUS / 0.3 * 2.0**-18
    shares = one_hot(labels, 5) * LEFT_RADIUS  # and the wrong ones the most that is allowed
    wrong = residuals(made, weights, labels + 1, clip=0.3, radii=RADII)
    assert bool(((wrong - shares).abs().sum(dim=1) > 0).all())
    torch.testing.assert_close(
        wrong.norm(dim=1), torch.full((30,), float(LEFT_RADIUS)).double(), rtol=1e-3, atol=0
    )
