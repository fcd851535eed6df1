"""The named feature maps of mean embeddings; none depends on data, and every |phi| is 1.

rff             random Fourier features of the pixels
scattering-rff  random Fourier features of the scattering coefficients
mix             both side by side, their squared norms in public shares

Each map has two faces: rows of private records in exact integer arithmetic, and rows of public
images in ordinary differentiable floating point.

Shape legend: N samples, M records, D pixels, R features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from curator.divergences.device import compute_device
from curator.divergences.random_features import FourierFeatures
from curator.divergences.scattering import Scattering
from curator.divergences.wavelets import MAP_BITS


class FeatureMap(Protocol):
    """A public map from an image to a row of features of norm 1."""

    @property
    def num_features(self) -> int:
        """Width R of a row."""
        ...

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Bit for bit, row i is a function of record i alone.
        """
        ...

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images in [-1, 1], in their dtype; differentiable."""
        ...


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PixelFeatures:
    """`rff`: frequencies meet the pixels.

    References:
        [harder:21], section 3.
    """

    fourier: FourierFeatures
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Levels are integers; row i is a function of record i alone.
        """
        centred_MD = levels_MD.to(compute_device(), torch.float64) * 2 - self.max_level
        return self.fourier.exact_rows(centred_MD, 1 / self.max_level)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        return self.fourier.rows(images_ND)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScatteringFeatures:
    """`scattering-rff`: frequencies meet the scattering coefficients."""

    fourier: FourierFeatures
    scattering: Scattering
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Coefficients are integers below 2^19; row i is a function of record i alone.
        """
        integers_MS = self.scattering.record_rows(levels_MD.to(compute_device()), self.max_level)
        return self.fourier.exact_rows(integers_MS.to(torch.float64), 2.0**-MAP_BITS)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        return self.fourier.rows(self.scattering.rows(images_ND))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MixedFeatures:
    """`mix`: two maps side by side; `share` of the squared norm is the first one's."""

    first: FeatureMap
    second: FeatureMap
    share: float

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.first.num_features + self.second.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Row i is a function of record i alone; its parts have squared norms of at most share and
            1 - share, with room for rounding.
        """
        return self._join(self.first.record_rows(levels_MD), self.second.record_rows(levels_MD))

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        return self._join(self.first.rows(images_ND), self.second.rows(images_ND))

    def _join(self, first: Tensor, second: Tensor) -> Tensor:
        weights = math.sqrt(self.share), math.sqrt(1 - self.share)
        return torch.cat((first * weights[0], second * weights[1]), dim=1)
