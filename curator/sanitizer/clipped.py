"""Release one matrix that depends on a whole private batch: clip it as one vector and noise it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.lattice import is_certified, lattice_radius, truncate

_MARGIN = (
    1 - 2.0**-30
)  # keeps float64 rounding inside the ball; the integer check has the last word


def release_clipped(
    compute: Callable[[], Tensor],
    *,
    shape: tuple[int, int],
    clip_norm: float,
    noise_multiplier: float,
    noise: NoiseSource,
) -> Release:
    """Compute a private matrix and return it clipped to one L2 ball and noised on the lattice.

    Whatever goes wrong inside `compute` (an exception, NaN, infinity, another shape) becomes the
    zero vector, noised like any other: an abort that happens only when some record was sampled
    would identify it.

    Args:
        compute: Returns the matrix, or what `clipped_to_lattice` made of it on a graphics card;
            everything private happens inside.
        shape: Public shape of the matrix.
        clip_norm: Bound C > 0 on the L2 norm of the whole matrix.
        noise_multiplier: Noise standard deviation over the sensitivity 2C.
        noise: Secret randomness.

    Returns:
        A release of one lattice block of `shape`, noise standard deviation at least
        2 * clip_norm * noise_multiplier per coordinate.

    Privacy:
        Any two batches give two points of the ball of radius C, so the sensitivity is 2C for any
        neighbouring relation on the batch. Proof: sanitizer.md, theorem 1.
    """
    radius = lattice_radius(noise_multiplier, sensitivity_in_radii=2)
    grid = clip_norm / radius
    drawn = noise.discrete_gaussian(math.prod(shape)).reshape(shape)  # while a card may be at work
    integers = _lattice_point(compute, shape, clip_norm, radius)
    return Release(blocks=(LatticeBlock(integers=drawn.add_(integers), grid=grid),))


def _lattice_point(
    compute: Callable[[], Tensor], shape: tuple[int, int], clip_norm: float, radius: int
) -> Tensor:
    """Return the clipped, truncated and certified matrix, or zeros; never raises.

    The certificate alone decides, so it does not matter where the integers were made.
    """
    try:
        integers = compute().detach().to("cpu")
        if integers.dtype is not torch.int64:
            integers = clipped_to_lattice(integers, clip_norm, radius)
        certified = integers.shape == shape and is_certified(integers, radius)
    except Exception:  # noqa: BLE001 - an abort would reveal which records were sampled
        certified, integers = False, torch.empty(0)
    return integers if certified else torch.zeros(shape, dtype=torch.int64)


def clipped_to_lattice(matrix: Tensor, clip_norm: float, radius: int) -> Tensor:
    """Clip a matrix as one vector and truncate it to the lattice.

    Args:
        matrix: Values of any shape, on any device.
        clip_norm: Bound C > 0, in the units of `matrix`.
        radius: That of `lattice_radius`.

    Returns:
        int64 lattice coordinates, to be certified before anything is made of them.
    """
    return truncate(clip_to_ball(matrix.to(torch.float64), clip_norm), clip_norm / radius)


def clip_to_ball(vector: Tensor, clip_norm: float) -> Tensor:
    """Scale a vector into the ball; a vector that is not finite becomes zero.

    Args:
        vector: float64 values of any shape, taken as one vector.
        clip_norm: Bound C > 0, in the units of `vector`.

    Returns:
        Values of norm at most `clip_norm`, shape as `vector`.
    """
    norm = torch.linalg.vector_norm(vector)
    finite = torch.isfinite(norm)  # false for a NaN or infinity anywhere, and for overflow
    limit = clip_norm * _MARGIN
    factor = torch.where(norm > limit, limit / norm, torch.ones_like(norm))
    return torch.where(finite, vector * factor, 0.0)
