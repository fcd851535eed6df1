"""Wavelet scattering of small images, as the curator computes it; differentiable.

Two octaves of one bank of eight Morlet wavelets. An octave filters maps, takes moduli and halves
the resolution; images and the moduli of the first octave go through the second one.

Shapes: N images, C channels, H height, W width, P maps, T tiles, I tile inputs, O outputs.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

NUM_ANGLES = 8
_MARGIN = 3  # filters are 7 x 7
_WINDOW = 0.8
_FREQUENCY = 0.75 * math.pi
_FILTER_GRID = 2.0**-14
_SMOOTHING = 2.0**-26
_LARGEST_TILE = 8
_FIRST_WEIGHT, _SECOND_WEIGHT = 2, 6  # the orders become about equally wide


def num_coefficients(channels: int, height: int, width: int) -> int:
    """Return how many coefficients an image has."""
    return channels * (1 + 2 * NUM_ANGLES + NUM_ANGLES**2) * -(-height // 4) * -(-width // 4)


def scattering(images_NCHW: Tensor) -> Tensor:
    """Return the scattering coefficients of images.

    Args:
        images_NCHW: Pixels in [-1, 1]; sides that are no multiple of four are padded.

    Returns:
        Rows [N, S]: weighted maps of order 0, 1 and 2, on grids of a quarter of the sides.
    """
    height, width = images_NCHW.shape[2:]
    images = functional.pad((images_NCHW + 1) / 2, (0, -width % 4, 0, -height % 4))
    first = functional.avg_pool2d(_moduli(images), 2)
    images = functional.avg_pool2d(images, 2)
    second = _moduli(first)
    first = torch.cat((first, _moduli(images)), dim=1)
    maps = torch.cat((images, _FIRST_WEIGHT * first, _SECOND_WEIGHT * second), dim=1)
    return functional.avg_pool2d(maps, 2).flatten(1)


@functools.lru_cache(maxsize=1)
def _filters() -> Tensor:
    """Return real, then imaginary parts [2 * 8, 1, 7, 7] on a public grid; each adds up to 0."""
    axis = torch.arange(-_MARGIN, _MARGIN + 1, dtype=torch.float64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    window = torch.exp(-(x * x + y * y) / (2 * _WINDOW**2))
    window = window / window.sum()
    parts = []
    for wave in (torch.cos, torch.sin):
        for index in range(NUM_ANGLES):
            angle = math.pi * index / NUM_ANGLES
            waves = wave(_FREQUENCY * math.cos(angle) * x + _FREQUENCY * math.sin(angle) * y)
            part = window * (waves - (window * waves).sum())
            part = torch.round(part / _FILTER_GRID)
            part[_MARGIN, _MARGIN] -= part.sum()
            parts.append(part * _FILTER_GRID)
    return torch.stack(parts).unsqueeze(1)


@functools.lru_cache(maxsize=16)
def _operator(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the matrix from a tile with its margin to all parts: [I, 2 * 8 * h * w].

    A matrix product is several times faster forward and backward than a convolution of one channel.
    """
    shape = (height + 2 * _MARGIN, width + 2 * _MARGIN)
    units = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, 1, *shape)
    return functional.conv2d(units, _filters()).flatten(1).to(device, dtype)


def _moduli(maps_NPHW: Tensor) -> Tensor:
    """Return [N, P * 8, H, W], the angles of a map beside each other."""
    num_images, num_maps, height, width = maps_NPHW.shape
    tile = _divisor(height), _divisor(width)
    padded = functional.pad(maps_NPHW.flatten(0, 1), (_MARGIN,) * 4)
    tiles = padded.unfold(1, tile[0] + 2 * _MARGIN, tile[0])
    tiles = tiles.unfold(2, tile[1] + 2 * _MARGIN, tile[1])
    operator_IO = _operator(*tile, maps_NPHW.dtype, maps_NPHW.device)
    values_TO = tiles.reshape(-1, len(operator_IO)) @ operator_IO
    moduli_TO: Tensor = _Modulus.apply(values_TO)  # type: ignore[no-untyped-call]
    grid = (height // tile[0], width // tile[1])
    joined = moduli_TO.reshape(-1, *grid, NUM_ANGLES, *tile).permute(0, 3, 1, 4, 2, 5)
    return joined.reshape(num_images, num_maps * NUM_ANGLES, height, width)


def _divisor(side: int) -> int:
    return max(size for size in range(1, _LARGEST_TILE + 1) if side % size == 0)


class _Modulus(torch.autograd.Function):
    """Smoothed moduli of the halves of each row, with one pass over memory less than autograd."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, parts_TO: Tensor) -> Tensor:
        real, imaginary = parts_TO.chunk(2, dim=1)
        moduli = (real * real).add_(imaginary * imaginary).add_(_SMOOTHING).sqrt_()
        ctx.save_for_backward(parts_TO, moduli)
        return moduli

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, slopes: Tensor) -> Tensor:
        parts_TO, moduli = ctx.saved_tensors  # type: ignore[attr-defined]
        parts: Tensor = parts_TO.unflatten(1, (2, -1)) * (slopes / moduli).unsqueeze(1)
        return parts.flatten(1)
