"""A whole batch leaves clipped, on the lattice, and never as an exception."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from curator.privacy.release import LatticeBlock
from curator.sanitizer.clipped import clip_to_ball, clipped_to_lattice, release_clipped
from curator.sanitizer.lattice import lattice_radius, squared_norm
from tests.fakes.noise import NoNoise, SeededNoise

SHAPE = (6, 5)
CLIP = 0.5
Z = 1.1


def release(compute: Callable[[], Tensor]) -> LatticeBlock:
    (block,) = release_clipped(
        compute, shape=SHAPE, clip_norm=CLIP, noise_multiplier=Z, noise=NoNoise()
    ).blocks
    assert isinstance(block, LatticeBlock)
    return block


def raising() -> Tensor:
    raise RuntimeError("record 17 is damaged")


def with_value(value: float) -> Tensor:
    matrix = torch.ones(SHAPE)
    matrix[3, 2] = value
    return matrix


@pytest.mark.parametrize(
    "compute",
    [
        raising,
        lambda: with_value(torch.nan),
        lambda: with_value(torch.inf),
        lambda: with_value(-torch.inf),
        lambda: torch.full(SHAPE, 1e200, dtype=torch.float64),  # the norm overflows
        lambda: torch.ones((6, 6)),
        lambda: torch.ones(30),
        lambda: torch.zeros((0, 5)),
        lambda: None,
    ],
)
def test_whatever_goes_wrong_becomes_the_zero_vector(compute: Callable[[], Tensor]) -> None:
    assert release(compute).integers.tolist() == torch.zeros(SHAPE).tolist()


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 0.0912, 1.0, 1e3, 1e30])
def test_the_integer_norm_is_within_the_radius(scale: float) -> None:
    radius = lattice_radius(Z, sensitivity_in_radii=2)
    block = release(lambda: torch.full(SHAPE, scale, dtype=torch.float64))
    assert block.grid == CLIP / radius
    assert squared_norm(block.integers, radius) <= radius**2
    if scale >= 1.0:  # clipped, and close to the sphere
        assert squared_norm(block.integers, radius) > (0.999 * radius) ** 2


def test_short_vectors_are_only_truncated() -> None:
    matrix = torch.linspace(-0.05, 0.05, 30, dtype=torch.float64).reshape(SHAPE)
    block = release(lambda: matrix)
    error = block.integers * block.grid - matrix
    assert error.abs().max() < block.grid
    assert bool(((block.integers * block.grid).abs() <= matrix.abs()).all())


def test_the_direction_survives_clipping() -> None:
    matrix = torch.arange(30, dtype=torch.float64).reshape(SHAPE)
    clipped = clip_to_ball(matrix, CLIP)
    assert torch.allclose(clipped / clipped.norm(), matrix / matrix.norm())
    assert 0 < CLIP - clipped.norm() < 1e-8


def test_the_noise_is_the_declared_one() -> None:
    """Sample standard deviation of 60,000 draws; false alarm below 1e-9 (6.1 standard errors)."""
    shape = (60, 1000)
    (block,) = release_clipped(
        raising, shape=shape, clip_norm=CLIP, noise_multiplier=Z, noise=SeededNoise(3)
    ).blocks
    assert isinstance(block, LatticeBlock)
    noise = block.integers.to(torch.float64) * block.grid
    expected = 2 * CLIP * Z
    assert abs(noise.std() / expected - 1) < 6.1 / (2 * noise.numel()) ** 0.5
    assert abs(noise.mean()) < 6.1 * expected / noise.numel() ** 0.5


def test_a_lattice_point_made_elsewhere_is_released_if_it_is_certified() -> None:
    radius = lattice_radius(Z, sensitivity_in_radii=2)
    matrix = torch.linspace(-1, 1, 30).reshape(SHAPE)
    point = clipped_to_lattice(matrix, CLIP, radius)
    assert release(lambda: point).integers.equal(release(lambda: matrix).integers)
    too_long = point.sign() * radius
    assert int(release(lambda: too_long).integers.abs().max()) == 0
    assert int(release(lambda: point[:4]).integers.abs().max()) == 0
