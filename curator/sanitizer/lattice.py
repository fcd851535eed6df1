"""The public integer lattice on which every release is exact.

A vector of norm at most C becomes integers k with sum(k^2) <= radius^2 on a grid of C / radius.
All noise has one standard deviation, `LATTICE_STD`, in lattice units; a mechanism's noise
multiplier decides the radius, so noise over sensitivity is never below what is charged.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from curator.privacy.event_numbers import check_noise_multiplier
from curator.privacy.toward_zero import toward_zero

LATTICE_VARIANCE = 512**2 * 16385  # the sampler of gaussian.py: 128 * X1 + X2, std of X 512
LATTICE_STD = math.sqrt(LATTICE_VARIANCE)

_CHUNK = 1 << 16  # at most 2**16 squares of at most (6.6e6)**2 < 2**46 each: 2**62 fits int64


def lattice_radius(noise_multiplier: float, *, sensitivity_in_radii: int) -> int:
    """Return the largest integer radius at which the noise is worth `noise_multiplier`.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity that the ledger charges.
        sensitivity_in_radii: 2 when neighbours give two arbitrary points of the ball (a whole
            clipped batch), 1 when they differ by one point of the ball (a sum over units).

    Returns:
        Z >= 1 with LATTICE_STD / (sensitivity_in_radii * Z) >= noise_multiplier, in exact integers.

    Raises:
        ValueError: If the multiplier is out of range, or so large that no lattice point is left.
    """
    check_noise_multiplier(noise_multiplier)
    if sensitivity_in_radii not in {1, 2}:
        msg = "sensitivity_in_radii must be 1 or 2"
        raise ValueError(msg)
    numerator, denominator = float(noise_multiplier).as_integer_ratio()
    # Z <= s / (b z)  <=>  Z^2 <= s^2 / (b z)^2, decided without rounding
    square = LATTICE_VARIANCE * denominator**2 // (sensitivity_in_radii * numerator) ** 2
    radius = math.isqrt(square)
    if radius < 1:
        msg = "noise_multiplier is too large for the lattice"
        raise ValueError(msg)
    return radius


def truncate(vector: Tensor, grid: float) -> Tensor:
    """Round each coordinate toward zero to the grid; the norm never grows.

    Args:
        vector: Finite float64 values in the units of `grid`.
        grid: Lattice spacing, positive.

    Returns:
        int64 lattice coordinates, shape as `vector`.
    """
    divisor = vector.new_full((), grid)  # a card multiplies by the inverse of a plain number
    return toward_zero(vector / divisor).to(torch.int64)


def squared_norm(integers: Tensor, radius: int) -> int:
    """Return the exact squared norm, or radius^2 + 1 when a single coordinate exceeds the radius.

    Coordinates are bounded before they are squared, so no int64 overflows: a chunk of 2^16 squares
    stays below 2^62 and chunks are added as Python integers.

    Args:
        integers: int64 lattice coordinates.
        radius: The bound of `lattice_radius`.

    Returns:
        The squared norm as a Python integer.
    """
    flat = integers.reshape(-1)
    bounded = flat.clamp(-radius - 1, radius + 1)
    starts = range(0, bounded.numel(), _CHUNK)
    chunks = (bounded[start : start + _CHUNK] for start in starts)
    return sum(int(torch.dot(chunk, chunk)) for chunk in chunks)


def is_certified(integers: Tensor, radius: int) -> bool:
    """Return whether sum(k^2) <= radius^2 in exact integers.

    Args:
        integers: int64 lattice coordinates.
        radius: The bound of `lattice_radius`.

    Returns:
        The certificate that noise calibrated to `radius` relies on.
    """
    return squared_norm(integers, radius) <= radius**2
