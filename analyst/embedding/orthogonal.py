"""Structured orthogonal frequencies, as the curator has them: signs, and matrices of Hadamard.

Directions of a block of P, a power of two, are the rows of H D1 H D2 H D3 / P: H has entries 1 and
-1, and D random signs on its diagonal. The curator computes them in integers, with its own code.

Shapes: N rows, D inputs, P of them after padding, F frequencies, B blocks.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

_DOMAIN = "weir orthogonal frequencies v1"
_CHANGES = 3


def draw_signs(seed: int, stream: int, number: int) -> Tensor:
    """Return public signs, float32: bits of SHAKE-256 of the seed, of which 1 stands for -1.

    Args:
        seed: Public seed.
        stream: Which of the independent streams under the seed.
        number: How many.
    """
    text = f"{_DOMAIN}|{seed}|{stream}".encode("ascii")
    drawn = np.frombuffer(hashlib.shake_256(text).digest((number + 7) // 8), dtype=np.uint8)
    bits = (drawn[:, None] >> np.arange(8)) & 1
    return torch.from_numpy(1.0 - 2.0 * bits.reshape(-1)[:number]).to(torch.float32)


@final
class OrthogonalFrequencies:
    """Directions of one or several blocks, divided by their bandwidths."""

    def __init__(self, dimension: int, inverse_F: Tensor, *, seed: int, stream: int) -> None:
        """Draw the signs.

        Args:
            dimension: D.
            inverse_F: One over the bandwidth of each frequency.
            seed: Public seed.
            stream: Of the signs.
        """
        size = 1
        while size < dimension:
            size *= 2
        self.number = len(inverse_F)
        self._scales_F = inverse_F / size
        blocks = (self.number + size - 1) // size
        self._signs_BCP = draw_signs(seed, stream, blocks * _CHANGES * size).view(
            -1, _CHANGES, size
        )

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return phases [N, F] in the dtype of the inputs; differentiable."""
        self._signs_BCP = self._signs_BCP.to(inputs_ND)
        self._scales_F = self._scales_F.to(inputs_ND)
        inputs_NP = pad(inputs_ND, (0, self._signs_BCP.shape[2] - inputs_ND.shape[1]))
        parts = []
        for signs_CP in self._signs_BCP:
            values_NP = inputs_NP
            for signs_P in signs_CP:
                values_NP = _times_hadamard(values_NP * signs_P)
            parts.append(values_NP)
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return whole[:, : self.number] * self._scales_F


def _times_hadamard(values_NP: Tensor) -> Tensor:
    """Return rows times the matrix of P rows, by two of about the root of P."""
    size = values_NP.shape[1]
    left = 1 << ((size.bit_length() - 1) // 2)
    squares = values_NP.reshape(-1, left, size // left)
    like = values_NP.dtype, values_NP.device
    return (_hadamard_on(left, *like) @ (squares @ _hadamard_on(size // left, *like))).reshape(
        -1, size
    )


@cache
def _hadamard_on(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the matrix where it is used, so that no step copies it to a card."""
    return _hadamard(size).to(device, dtype)


def _hadamard(size: int) -> Tensor:
    """Return the matrix whose entry (i, j) is -1 to the number of bits that i and j share."""
    if size == 1:
        return torch.ones((1, 1))
    return torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), _hadamard(size // 2))
