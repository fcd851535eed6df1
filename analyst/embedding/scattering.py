"""Wavelet scattering of small images, as the curator computes it; differentiable.

Two octaves of one bank of eight Morlet wavelets. An octave filters maps, takes moduli and halves
the resolution; images and the moduli of the first octave go through the second one.

In float32 on a processor loops compiled by numba do it, if they agree with plain torch on this
machine; else, and on a graphics card, plain torch does.

Shapes: N images, C channels, H height, W width, P maps, T tiles, I tile inputs, O outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
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
_TOLERANCE = 1e-5
_BLOCK = 16  # images of a vector of the compiled loops
_FIRST_WEIGHT, _SECOND_WEIGHT = 2, 6  # the orders become about equally wide

Result = TypeVar("Result")


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
    if images_NCHW.device.type == "cpu" and images_NCHW.dtype is torch.float32 and not why_plain():
        rows_NS: Tensor = _Looped.apply(images_NCHW)  # type: ignore[no-untyped-call]
        return rows_NS
    return plain_scattering(images_NCHW)


@functools.lru_cache(maxsize=1)
def why_plain() -> str:
    """Return why compiled loops are not used on processors; empty if they are."""
    if find_spec("numba") is None:
        return "numba is not installed"
    axis = torch.linspace(0, 40, 2 * 8 * 12).reshape(2, 1, 8, 12)
    results = []
    try:
        for transform, dtype in ((_Looped.apply, torch.float32), (plain_scattering, torch.float64)):
            images = axis.to(dtype).sin().requires_grad_()
            rows_NS = transform(images)
            weights_NS = torch.linspace(0, 90, rows_NS.numel(), dtype=dtype).cos().view_as(rows_NS)
            (slopes,) = torch.autograd.grad(rows_NS, images, weights_NS)
            results.append((rows_NS.detach().double(), slopes.double()))
    except Exception as fault:  # noqa: BLE001 - a compiler can fail in any way; torch remains
        return f"its loops could not be compiled ({type(fault).__name__})"
    error = max(
        float((one - other).abs().max() / other.abs().max())
        for one, other in zip(*results, strict=True)
    )
    if not error <= _TOLERANCE:
        return (
            f"they differ from float64 by {error:.1e} of the largest, {_TOLERANCE:.0e} is allowed"
        )
    return ""


def plain_scattering(images_NCHW: Tensor) -> Tensor:
    """Return the same as `scattering` by operations of torch alone.

    Args:
        images_NCHW: Pixels in [-1, 1].
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


@functools.cache  # a captured graph reads it for as long as there is a process
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


class _Looped(torch.autograd.Function):
    """Compiled loops, sixteen images at a time, on as many threads as torch may have."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, images_NCHW: Tensor) -> Tensor:
        from analyst.embedding import scattering_loops as loops

        images_NCHW = images_NCHW.detach().contiguous()
        rows_NS = images_NCHW.new_empty(
            (len(images_NCHW), num_coefficients(*images_NCHW.shape[1:]))
        )
        images, rows = images_NCHW.numpy(), rows_NS.numpy()

        def scatter(start: int) -> np.ndarray[Any, Any]:
            first: np.ndarray[Any, Any] = loops.scatter(images, _split_filters(), start, rows)
            return first

        ctx.first = _each_block(scatter, len(images))  # type: ignore[attr-defined]
        ctx.save_for_backward(images_NCHW)
        return rows_NS

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, slopes_NS: Tensor) -> Tensor:
        from analyst.embedding import scattering_loops as loops

        (images_NCHW,) = ctx.saved_tensors  # type: ignore[attr-defined]
        result = torch.empty_like(images_NCHW)
        images, slopes, out = images_NCHW.numpy(), slopes_NS.contiguous().numpy(), result.numpy()
        first: list[np.ndarray[Any, Any]] = ctx.first  # type: ignore[attr-defined]

        def pull(start: int) -> None:
            moduli = first[start // _BLOCK]
            loops.pull(images, moduli, _split_filters(), start, slopes, out)

        _each_block(pull, len(images))
        return result


def _each_block(work: Callable[[int], Result], num_images: int) -> list[Result]:
    """Return what work makes of each block, in order; a block is one thread's."""
    starts = range(0, num_images, _BLOCK)
    num_threads = min(torch.get_num_threads(), len(starts))
    if num_threads < 2:
        return [work(start) for start in starts]
    with ThreadPoolExecutor(num_threads) as threads:
        return list(threads.map(work, starts))


@functools.lru_cache(maxsize=1)
def _split_filters() -> np.ndarray[Any, Any]:
    from analyst.embedding import scattering_loops as loops

    return loops.split(_filters()[:, 0].numpy())
