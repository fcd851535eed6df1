"""Random Fourier features of the codes of a released encoder, in exact arithmetic for records.

A record's row must not depend, in any bit, on its companions. The encoder's weights are integers on
a public grid; so are pixels, hidden units and codes, which are rounded down one by one. Every sum
of products is then an integer below 2^53, exact in float64 in any order, and all else (a leaky
unit, a softsign, one floor each) is elementwise arithmetic of IEEE 754.

Shape legend: N samples, M records, D pixels, H hidden units, E entries of a code, R features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from curator.divergences.autoencoder import WEIGHT_GRID, encode
from curator.divergences.critics import SLOPE, Parameters
from curator.divergences.device import compute_device
from curator.divergences.random_features import FourierFeatures

MAX_PIXELS: Final = 1 << 20  # levels below 2^9, weights below 2^16: sums stay below 2^45
MAX_HIDDEN: Final = 1 << 12  # units at most 2^22, weights below 2^16: sums stay below 2^50
CODE_GRID: Final = 2.0**-12
LARGEST_CODE: Final = 2.0**12  # on the grid
_HIDDEN_GRID: Final = 2.0**-12
_LARGEST_HIDDEN: Final = 2.0**22


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EncoderFeatures:
    """Frequencies meet the codes of an encoder whose weights are public and on their grid."""

    fourier: FourierFeatures
    encoder: Parameters
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Levels, hidden units and codes are integers; row i is a function of record i alone.
        """
        return self.fourier.exact_rows(self.record_codes(levels_MD), CODE_GRID)

    def record_codes(self, levels_MD: Tensor) -> Tensor:
        """Return codes of stored levels as integers on their grid, at most 2^12 in size.

        Privacy:
            Row i is a function of record i alone, bit for bit.
        """
        centred_MD = levels_MD.to(compute_device(), torch.float64) * 2 - self.max_level
        before_MH = self._exact_layer("encoder.hidden", centred_MD, 1 / self.max_level)
        leaky_MH = torch.where(before_MH > 0, before_MH, before_MH * SLOPE)
        hidden_MH = torch.floor(leaky_MH / _HIDDEN_GRID).clamp(-_LARGEST_HIDDEN, _LARGEST_HIDDEN)
        before_ME = self._exact_layer("encoder.code", hidden_MH, _HIDDEN_GRID)
        return torch.floor(before_ME / (before_ME.abs() + 1) / CODE_GRID)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        parameters = {name: value.to(images_ND) for name, value in self.encoder.items()}
        return self.fourier.rows(encode(parameters, images_ND))

    def _exact_layer(self, name: str, integers: Tensor, unit: float) -> Tensor:
        """Return a layer's outputs for inputs that are integers times a unit."""
        weights = self.encoder[f"{name}.weight"].to(integers) / WEIGHT_GRID
        return (integers @ weights.T) * (WEIGHT_GRID * unit) + self.encoder[f"{name}.bias"].to(
            integers
        )
