"""A two-order wavelet scattering of small images, in exact integers or in floating point.

An octave filters maps with Morlet wavelets of eight angles, takes the modulus and halves the
resolution by averages of 2 x 2. Images and moduli of the first octave go through the second one, so
there are 1 + 2 * 8 + 8 * 8 = 81 maps per channel, each on a grid of a quarter of the sides. Images
are first mapped to [0, 1], so that an empty border equals the zeros around it. Higher orders are
smaller; public weights make up for it.

Shape legend: N images, M records, D pixels, P maps, H height, W width, S coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from curator.divergences.wavelets import MAP_BITS, NUM_ANGLES, exact_moduli, moduli

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
            levels_MD: uint8 levels in 0..max_level.
            max_level: Highest level.

        Returns:
            int64 rows (M, S) in units of 2^-16, in [0, 2^19).

        Privacy:
            Integer arithmetic throughout: bit for bit, row i depends on record i only.
        """
        scaled_MD = levels_MD.to(torch.int64) << (MAP_BITS + 1)
        pixels_MD = (scaled_MD + max_level).div(2 * max_level, rounding_mode="floor")
        return self._cascade(pixels_MD, exact_moduli, _exactly_halved)

    @property
    def _padded(self) -> tuple[int, int]:
        step = 1 << NUM_OCTAVES
        return math.ceil(self.height / step) * step, math.ceil(self.width / step) * step

    def _cascade(self, pixels_ND: Tensor, filtered: _Maps, halved: _Maps) -> Tensor:
        """Return all maps, averaged to the last grid and weighted: order 0, then 1, then 2."""
        height, width = self._padded
        low = pixels_ND.reshape(-1, self.channels, self.height, self.width)
        low = functional.pad(low, (0, width - self.width, 0, height - self.height))
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
