"""The average over critics: each bounded alone, in exact integers, on the finer lattice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import averaged
from curator.sanitizer.averaged import (
    FINE_STD,
    MAX_CRITICS,
    clip_images,
    fine_noise,
    fine_radius,
    release_critic_mean,
)
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_VARIANCE
from tests.fakes.noise import NoNoise

CLIP, Z, K, B, D = 0.7, 3.3, 5, 4, 6


def released(
    compute: Callable[[], Iterable[Tensor]], *, clip: float = CLIP, z: float = Z
) -> LatticeBlock:
    release: Release = release_critic_mean(
        compute,
        num_critics=K,
        shape=(B, D),
        clip_norm=clip,
        noise_multiplier=z,
        noise=NoNoise(),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block


def gradients(scale: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(K, B, D, generator=generator, dtype=torch.float64) * scale


@pytest.mark.parametrize("z", [0.01, 0.3, 1.0, 23.8, 75.2, 528.0, 32_000.0, 1 / 3])
def test_noise_over_sensitivity_is_never_below_what_is_charged(z: float) -> None:
    radius = fine_radius(z)
    assert Fraction(FINE_STD) >= 2 * Fraction(z) * radius
    assert Fraction(FINE_STD) < 2 * Fraction(z) * (radius + 1)
    assert radius < 1 << 29


def test_the_standard_deviation_is_that_of_the_sum_of_two_draws() -> None:
    assert LATTICE_VARIANCE * (128**2 + 1) == FINE_STD**2


@pytest.mark.parametrize("z", [0.0, -1.0, math.nan, math.inf, 1e7])
def test_a_multiplier_out_of_range_is_refused(z: float) -> None:
    with pytest.raises(ValueError, match="noise_multiplier"):
        fine_radius(z)


@pytest.mark.parametrize(
    ("critics", "shape"), [(0, (1, 1)), (MAX_CRITICS + 1, (1, 1)), (1, (0, 3))]
)
def test_absurd_sizes_are_refused(critics: int, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="too many"):
        release_critic_mean(
            list, num_critics=critics, shape=shape, clip_norm=1, noise_multiplier=1, noise=NoNoise()
        )


@pytest.mark.statistical
def test_the_noise_has_the_fine_standard_deviation() -> None:
    """200,000 draws; false alarm below 1e-7 (5.4 standard errors), and no residue is missing."""
    drawn = fine_noise(OsEntropy(), 200_000).double()
    assert abs(float(drawn.std()) / FINE_STD - 1) < 5.4 / math.sqrt(2 * 200_000)
    assert abs(float(drawn.mean())) < 5.4 * FINE_STD / math.sqrt(200_000)
    assert len(torch.unique(drawn.long() % 128)) == 128


def test_the_average_is_of_clipped_images() -> None:
    given = gradients(2.0)
    block = released(lambda: [given[:2], given[2:]])
    expected = clip_images(given, CLIP).mean(dim=0)
    torch.testing.assert_close(block.integers.double() * block.grid, expected, rtol=0, atol=1e-5)
    small = gradients(1e-2)
    block = released(lambda: [small])
    torch.testing.assert_close(
        block.integers.double() * block.grid, small.mean(dim=0), rtol=0, atol=1e-5
    )


def test_little_is_lost_where_the_usual_lattice_would_leave_nothing() -> None:
    """At this multiplier the usual lattice has a radius of 62 for 32 images of 784 pixels."""
    generator = torch.Generator().manual_seed(1)
    one = torch.randn(1, 32, 784, generator=generator, dtype=torch.float64)
    (block,) = release_critic_mean(
        lambda: [one],
        num_critics=1,
        shape=(32, 784),
        clip_norm=1.0,
        noise_multiplier=528.0,
        noise=NoNoise(),
    ).blocks
    assert isinstance(block, LatticeBlock)
    expected = clip_images(one, 1.0)[0]
    assert torch.linalg.vector_norm(block.integers * block.grid - expected) < 0.02 * 32**0.5


def test_one_critic_moves_the_sum_by_at_most_two_radii() -> None:
    radius = fine_radius(Z)
    others = gradients()
    for scale in (1e-3, 1.0, 1e30, math.inf, math.nan):
        ends = []
        for sign in (1.0, -1.0):
            given = others.clone()
            given[2] = sign * scale
            ends.append(released(lambda given=given: [given]).integers)  # type: ignore[misc]
        squared = int((ends[0] - ends[1]).square().sum())
        assert squared <= (2 * radius) ** 2
        if 1 <= scale < math.inf:  # and the bound is reached
            assert squared > (2 * radius * 0.999) ** 2


def test_the_order_of_critics_does_not_matter() -> None:
    given = gradients()
    order = torch.randperm(K, generator=torch.Generator().manual_seed(3))
    first = released(lambda: [given])
    second = released(lambda: [given[order][:1], given[order][1:4], given[order][4:]])
    assert torch.equal(first.integers, second.integers)


def failing() -> Iterable[Tensor]:
    yield gradients()[:3]
    raise ArithmeticError


@pytest.mark.parametrize(
    "compute",
    [
        failing,
        lambda: [gradients()[:4]],
        lambda: [gradients(), gradients()[:1]],
        lambda: [torch.full((K, 1, 1), CLIP)],  # would be spread over all coordinates
        lambda: [gradients()[:, :, :1]],
        list,
        lambda: None,
        lambda: [torch.full((K, B, D), math.nan)],
    ],
)
def test_whatever_goes_wrong_becomes_the_zero_vector(
    compute: Callable[[], Iterable[Tensor]],
) -> None:
    assert released(compute).integers.count_nonzero() == 0


def test_an_image_that_is_not_finite_is_zero_alone() -> None:
    given = gradients()
    spoilt = given.clone()
    spoilt[1, 2, 3] = math.nan
    spoilt[3, 0, 0] = math.inf
    without = given.clone()
    without[1, 2] = without[3, 0] = 0.0
    assert torch.equal(released(lambda: [spoilt]).integers, released(lambda: [without]).integers)


def test_a_critic_that_is_not_certified_is_zero_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averaged, "clip_images", lambda values, _: values)
    given = gradients(1e-3)
    given[4] = 9.0
    without = given.clone()
    without[4] = 0.0
    assert torch.equal(released(lambda: [given]).integers, released(lambda: [without]).integers)


@pytest.mark.parametrize("radius", [1, 5, 1000, (1 << 29) - 1])
def test_the_certificate_agrees_with_python_integers(radius: int) -> None:
    generator = torch.Generator().manual_seed(radius % 97)
    rows = []
    for length in (radius, radius + 1, 3 * radius, 1 << 62):
        row = torch.randint(-2, 3, (12,), generator=generator)
        row[3] = -length
        rows.append(row)
    rows.append(torch.full((12,), -math.isqrt(radius**2 // 12)))
    rows.append(torch.full((12,), math.isqrt(radius**2 // 12) + 1))
    lone = torch.zeros(12, dtype=torch.int64)
    lone[0] = -radius
    values = torch.stack([*rows, lone, -lone])
    expected = [sum(v * v for v in row) <= radius**2 for row in values.tolist()]
    assert averaged._certified(values.reshape(-1, 3, 4), radius) == expected
    assert True in expected
    assert False in expected


def test_the_certificate_does_not_overflow_on_many_large_coordinates() -> None:
    radius = (1 << 29) - 1
    values = torch.full((1, 1 << 10, 1 << 10), radius)
    assert averaged._certified(values, radius) == [False]
