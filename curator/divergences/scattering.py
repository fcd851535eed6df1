"""A two-order wavelet scattering of small images, in exact integers or in floating point.

An octave filters maps with Morlet wavelets of eight angles, takes the modulus and halves the
resolution by averages of 2 x 2. Images and moduli of the first octave go through the second one, so
there are 1 + 2 * 8 + 8 * 8 = 81 maps per channel, each on a grid of a quarter of the sides. Images
are first mapped to [0, 1], so that an empty border equals the zeros around it. Higher orders are
smaller; public weights make up for it.

A filter is a matrix product: maps are cut into overlapping tiles, and one matrix takes a tile to
real and imaginary parts at every angle. In float64 a product of integers is exact in any order, and
the modulus of the private side is an integer square root, so no bit of a record's map depends on
where the record stands, on its companions, or on how a library adds. For the same reason loops
compiled by numba give the same integers ten times as fast; they do, on a processor where they have
given them for images that are no secret.

Shape legend: N images, M records, D pixels, P maps, H height, W width, S coefficients, A angles, T
tiles, I tile inputs, O outputs.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_logger = logging.getLogger(__name__)

NUM_ANGLES = 8
MAP_BITS = 16  # private maps are integers * 2^-16
FILTER_BITS = 14  # absolute sums of a filter are below 2, so private sums are below 2^31
_SMOOTHING_BITS = 13  # sqrt(. + 2^-26): a finite slope where a map is flat
_HALF_WIDTH = 3
_WINDOW = 0.8  # standard deviation in pixels
_FREQUENCY = 0.75 * math.pi
_LARGEST_TILE = 8
_MAX_TILE_VALUES = 1 << 22  # of the private side at once: 32 MiB in float64


@functools.lru_cache(maxsize=1)
def morlet_filters() -> Tensor:
    """Return the real, then the imaginary parts of the filters, as integers * 2^-14.

    psi(u) = g(u) (exp(i f . u) - kappa) / sum g with a Gaussian window g, frequencies f of one
    length at eight angles of a half turn, and kappa such that psi adds up to zero, exactly. The
    rounding hides the last bits in which mathematics libraries differ.

    Returns:
        float64 integers (2A, 7, 7).

    References:
        [bruna:13], section 2.
    """
    grid = range(-_HALF_WIDTH, _HALF_WIDTH + 1)
    window = [[math.exp(-(x * x + y * y) / (2 * _WINDOW**2)) for x in grid] for y in grid]
    window_HW = torch.tensor(window, dtype=torch.float64)
    window_HW = window_HW / window_HW.sum()
    parts = []
    for wave in (math.cos, math.sin):
        for angle in (math.pi * index / NUM_ANGLES for index in range(NUM_ANGLES)):
            cosine, sine = _FREQUENCY * math.cos(angle), _FREQUENCY * math.sin(angle)
            waves = [[wave(cosine * x + sine * y) for x in grid] for y in grid]
            waves_HW = torch.tensor(waves, dtype=torch.float64)
            part_HW = window_HW * (waves_HW - (window_HW * waves_HW).sum())
            part_HW = torch.round(part_HW * 2.0**FILTER_BITS)
            part_HW[_HALF_WIDTH, _HALF_WIDTH] -= part_HW.sum()
            parts.append(part_HW)
    return torch.stack(parts)


def moduli(maps_NPHW: Tensor) -> Tensor:
    """Return the smoothed moduli of public maps, differentiable.

    Args:
        maps_NPHW: Maps in about [0, 1], surrounded by zeros.

    Returns:
        Maps (N, P A, H, W), the angles of a map beside each other.
    """
    num_images, num_maps, height, width = maps_NPHW.shape
    tile = _tile(height), _tile(width)
    tiles_TI = _cut(maps_NPHW.flatten(0, 1), *tile)
    operator_IO = _float_operator(*tile, maps_NPHW.dtype, maps_NPHW.device)
    values_TO: Tensor = _Modulus.apply(tiles_TI @ operator_IO)  # type: ignore[no-untyped-call]
    return _joined(values_TO, (num_images, num_maps, height, width), *tile)


def exact_moduli(maps_NPHW: Tensor) -> Tensor:
    """Return the smoothed moduli of private maps, each a function of its own image alone.

    Args:
        maps_NPHW: int64 maps in [0, 2^16], in units of 2^-16.

    Returns:
        int64 maps (N, P A, H, W) in the same units, at most 2^17.

    Privacy:
        Every partial sum of the product is an integer below 2^31, so exact in float64; what
        follows is elementwise in int64. Memory is bounded whatever the number of images.
    """
    num_images, num_maps, height, width = maps_NPHW.shape
    tile = _tile(height), _tile(width)
    operator_IO = _operator(*tile, maps_NPHW.device)
    per_map = max(operator_IO.shape) * (height // tile[0]) * (width // tile[1])
    parts = [
        _rounded_moduli(_cut(part.to(torch.float64), *tile) @ operator_IO)
        for part in torch.split(maps_NPHW.flatten(0, 1), max(1, _MAX_TILE_VALUES // per_map))
    ]
    return _joined(torch.cat(parts), (num_images, num_maps, height, width), *tile)


def _rounded_moduli(sums_TO: Tensor) -> Tensor:
    """Return moduli in units of 2^-16 from real and imaginary parts in units of 2^-30."""
    real, imaginary = sums_TO.to(torch.int64).chunk(2, dim=1)
    floor = 1 << 2 * (MAP_BITS + FILTER_BITS - _SMOOTHING_BITS)
    squares = real * real + imaginary * imaginary + floor  # below 2^63
    root = squares.to(torch.float64).sqrt().floor().to(torch.int64)  # off by one at most
    root = root - (root * root > squares).to(torch.int64)
    root = root + ((root + 1) * (root + 1) <= squares).to(torch.int64)
    return (root + (1 << (FILTER_BITS - 1))) >> FILTER_BITS


class _Modulus(torch.autograd.Function):
    """sqrt(real^2 + imaginary^2 + 2^-26) of the two halves of each row."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, sums_TO: Tensor) -> Tensor:
        """Return the moduli."""
        real, imaginary = sums_TO.chunk(2, dim=1)
        values = (real * real).add_(imaginary * imaginary).add_(2.0 ** (-2 * _SMOOTHING_BITS))
        values = values.sqrt_()
        ctx.save_for_backward(sums_TO, values)
        return values

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, slopes: Tensor) -> Tensor:
        """Return the derivative with respect to the two halves."""
        sums_TO, values = ctx.saved_tensors  # type: ignore[attr-defined]
        scaled = (slopes / values).unsqueeze(1)
        halves: Tensor = sums_TO.unflatten(1, (2, -1)) * scaled
        return halves.flatten(1)


def _tile(side: int) -> int:
    """Return the largest divisor of a side up to 8: the outputs of a tile along it."""
    return max(size for size in range(1, _LARGEST_TILE + 1) if side % size == 0)


@functools.lru_cache(maxsize=16)
def _operator(height: int, width: int, device: torch.device) -> Tensor:
    """Return the integer matrix from a tile with its margin to both parts, (I, 2 A h w)."""
    margin = 2 * _HALF_WIDTH
    num_inputs = (height + margin) * (width + margin)
    units = torch.eye(num_inputs, dtype=torch.float64)
    units = units.reshape(num_inputs, 1, height + margin, width + margin)
    return functional.conv2d(units, morlet_filters().unsqueeze(1)).flatten(1).to(device)


@functools.lru_cache(maxsize=16)
def _float_operator(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return (_operator(height, width, device) * 2.0**-FILTER_BITS).to(dtype)


def _cut(maps_MHW: Tensor, height: int, width: int) -> Tensor:
    """Return overlapping tiles with a margin of zeros, a row each."""
    margin = 2 * _HALF_WIDTH
    padded = functional.pad(maps_MHW, (_HALF_WIDTH,) * 4)
    tiles = padded.unfold(1, height + margin, height).unfold(2, width + margin, width)
    return tiles.reshape(-1, (height + margin) * (width + margin))


def _joined(values_TO: Tensor, shape: tuple[int, int, int, int], height: int, width: int) -> Tensor:
    """Return tiles put together again, the angles after the maps."""
    num_images, num_maps, full_height, full_width = shape
    rows, columns = full_height // height, full_width // width
    tiles = values_TO.reshape(num_images * num_maps, rows, columns, NUM_ANGLES, height, width)
    maps = tiles.permute(0, 3, 1, 4, 2, 5)
    return maps.reshape(num_images, num_maps * NUM_ANGLES, full_height, full_width)


NUM_OCTAVES = 2
ORDER_WEIGHTS = (1, 2, 6)  # make the orders about equally wide on USPS, a public set
LARGEST_COEFFICIENT = 2.0**19  # of the private side, in units of 2^-16

_Maps = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Scattering:
    """The scattering of images of one public shape; sides are padded to multiples of four.

    References:
        [bruna:13], section 2 (without the Fourier domain: a cascade of one small filter bank).
    """

    channels: int
    height: int
    width: int

    @property
    def num_coefficients(self) -> int:
        """Width S of a row."""
        height, width = self._padded
        paths = 1 + NUM_OCTAVES * NUM_ANGLES + math.comb(NUM_OCTAVES, 2) * NUM_ANGLES**2
        return self.channels * paths * (height >> NUM_OCTAVES) * (width >> NUM_OCTAVES)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return the coefficients of public images; differentiable.

        Args:
            images_ND: Pixels in [-1, 1].

        Returns:
            Rows (N, S) in the dtype of the images.
        """
        return self._cascade((images_ND + 1) / 2, moduli, _halved)

    def record_rows(self, levels_MD: Tensor, max_level: int) -> Tensor:
        """Return the coefficients of stored levels, each row a function of its own record alone.

        Args:
            levels_MD: Levels in 0..max_level.
            max_level: Highest level, below 2^16: each has a value of its own.

        Returns:
            int64 rows (M, S) in units of 2^-16, in [0, 2^19).

        Privacy:
            Integer arithmetic throughout: bit for bit, row i depends on record i only.
        """
        scaled_MD = levels_MD.to(torch.int64) << (MAP_BITS + 1)
        pixels_MD = (scaled_MD + max_level).div(2 * max_level, rounding_mode="floor")
        if pixels_MD.device.type == "cpu" and not why_plain():
            return self._looped(pixels_MD)
        return self.plain_rows(pixels_MD)

    def plain_rows(self, pixels_MD: Tensor) -> Tensor:
        """Return the coefficients of integer pixels by operations of torch alone.

        Args:
            pixels_MD: int64 pixels in units of 2^-16.
        """
        return self._cascade(pixels_MD, exact_moduli, _exactly_halved)

    def _looped(self, pixels_MD: Tensor) -> Tensor:
        """Return the same by compiled loops, on as many threads as torch may have."""
        from curator.divergences import scattering_loops as loops

        pixels = self._maps(pixels_MD).contiguous().numpy()
        rows_MS = pixels_MD.new_empty((len(pixels), self.num_coefficients))
        weights, orders = loops.split(morlet_filters().numpy()), np.array(ORDER_WEIGHTS, np.int64)

        def scatter(start: int) -> None:
            loops.scatter(pixels, weights, orders, start, rows_MS.numpy())

        starts = range(0, len(pixels), loops.LANES)
        if torch.get_num_threads() == 1:
            for start in starts:
                scatter(start)
        else:
            with ThreadPoolExecutor(torch.get_num_threads()) as threads:
                list(threads.map(scatter, starts))
        return rows_MS

    @property
    def _padded(self) -> tuple[int, int]:
        step = 1 << NUM_OCTAVES
        return math.ceil(self.height / step) * step, math.ceil(self.width / step) * step

    def _maps(self, pixels_ND: Tensor) -> Tensor:
        height, width = self._padded
        maps = pixels_ND.reshape(-1, self.channels, self.height, self.width)
        return functional.pad(maps, (0, width - self.width, 0, height - self.height))

    def _cascade(self, pixels_ND: Tensor, filtered: _Maps, halved: _Maps) -> Tensor:
        """Return all maps, averaged to the last grid and weighted: order 0, then 1, then 2."""
        low = self._maps(pixels_ND)
        first, second = low[:, :0], low[:, :0]
        for octave in range(NUM_OCTAVES):
            if octave:
                second = torch.cat((second, filtered(first)), dim=1)
            first = torch.cat((first, filtered(low)), dim=1)
            low, first, second = (
                halved(maps) if maps.shape[1] else maps[..., ::2, ::2]
                for maps in (low, first, second)
            )
        orders = zip((low, first, second), ORDER_WEIGHTS, strict=True)
        return torch.cat([maps * weight for maps, weight in orders], dim=1).flatten(1)


def _halved(maps_NPHW: Tensor) -> Tensor:
    return functional.avg_pool2d(maps_NPHW, 2)


def _exactly_halved(maps_NPHW: Tensor) -> Tensor:
    """Return rounded averages of 2 x 2 integers."""
    upper, lower = maps_NPHW[..., ::2, :], maps_NPHW[..., 1::2, :]
    pairs = upper + lower
    return (pairs[..., ::2] + pairs[..., 1::2] + 2) >> 2


@functools.lru_cache(maxsize=1)
def why_plain() -> str:
    """Return why compiled loops are not used on this processor, and log it; empty if they are.

    Privacy:
        Compares integers of public images.
    """
    reason = _refusal()
    if reason:
        _logger.warning("the scattering runs in plain torch: %s", reason)
    return reason


def _refusal() -> str:
    if find_spec("numba") is None:
        return "numba is not installed"
    scattering = Scattering(channels=1, height=8, width=20)
    waves_MD = (torch.arange(9 * 160).square() % 257 << 8).reshape(9, 160)
    waves_MD[0], waves_MD[1] = 1 << MAP_BITS, 0
    try:
        rows_MS = scattering._looped(waves_MD)  # noqa: SLF001 - of this module
    except Exception as fault:  # noqa: BLE001 - a compiler can fail in any way; torch remains
        return f"its loops could not be compiled ({type(fault).__name__})"
    same = torch.equal(rows_MS, scattering.plain_rows(waves_MD))
    return "" if same else "its loops give other integers"
