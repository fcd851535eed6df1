"""Structured orthogonal frequencies: random changes of sign, each followed by a Hadamard matrix.

Directions of a block of P, a power of two, are the rows of H D1 H D2 H D3 / P, with H the matrix of
Hadamard of entries 1 and -1 and D random signs on a diagonal. They are orthogonal to each other and
of norm sqrt(P), as Gaussian numbers are nearly. A product takes P log P operations, and no matrix.
Frequencies beyond P are of further blocks with signs of their own.

Everything on the private side is a sum of integers with signs: see `exact_products`.

Shape legend: N samples, M records, D inputs, P of them after padding, F frequencies, B blocks.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from curator.divergences.device import compute_device
from curator.privacy.parts import values_at_once

_DOMAIN = "weir orthogonal frequencies v1"
_CHANGES = 3
_EXACT = 2.0**53  # float64 holds every integer up to here


def random_signs(
    seed: int, stream: int, num_values: int
) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Return public signs, 1 and -1, pinned by seed and stream.

    Bits of SHAKE-256 of the text "<domain>|seed|stream", the lowest of a byte first: 1 is -1.

    Args:
        seed: Public seed.
        stream: Index of an independent stream under the seed.
        num_values: Number of signs.
    """
    digest = hashlib.shake_256(f"{_DOMAIN}|{seed}|{stream}".encode("ascii"))
    packed = np.frombuffer(digest.digest(-(-num_values // 8)), dtype=np.uint8)
    bits = np.unpackbits(packed, count=num_values, bitorder="little").astype(np.int8)
    return 1 - 2 * bits


def padded(dimension: int) -> int:
    """Return the least power of two that is not below `dimension`, P."""
    return 1 << max(0, dimension - 1).bit_length()


def num_signs(num_frequencies: int, dimension: int) -> int:
    """Return how many signs are kept for so many frequencies."""
    size = padded(dimension)
    return -(-num_frequencies // size) * _CHANGES * size


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OrthogonalFrequencies:
    """Directions of one or several blocks.

    References:
        [yu:16], section 4 (structured orthogonal random features).
    """

    signs_BCP: Tensor  # float32, of the changes in the order in which they are made
    num_frequencies: int

    @property
    def unit(self) -> float:
        """What the integer 1 stands for: H^3 has norms of P^(3/2), and sqrt(P) is wanted."""
        return 1.0 / self.signs_BCP.shape[2]

    def exact_products(self, integers_MD: Tensor) -> Tensor:
        """Return float64 integers (M, F) of float64 integers, exact.

        H multiplies norms by sqrt(P). Integers below L, of norm at most sqrt(P) L, become such of
        norm at most P^2 L; a part of a sum is a sum for fewer inputs, so no number on the way is
        above that either. `orthogonal_frequencies` keeps it below 2^53, hence each sum is exact in
        any order.
        """
        size = max(1, values_at_once(integers_MD.device) // self.signs_BCP.shape[2])
        return torch.cat([self.products(part) for part in torch.split(integers_MD, size)])

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return products (N, F) in the dtype of the inputs; differentiable."""
        num_blocks, _, num_padded = self.signs_BCP.shape
        room = num_padded - inputs_ND.shape[1]
        inputs_NP = pad(inputs_ND, (0, room))
        blocks = []
        for signs_CP in self.signs_BCP.to(inputs_ND.dtype):
            values_NP = inputs_NP
            for signs_P in signs_CP:
                values_NP = hadamard(values_NP * signs_P)
            blocks.append(values_NP)
        whole = blocks[0] if num_blocks == 1 else torch.cat(blocks, dim=1)
        return whole[:, : self.num_frequencies]


def hadamard(values_NP: Tensor) -> Tensor:
    """Return rows times the matrix of Hadamard: entry (i, j) is -1 to the number of common bits.

    Args:
        values_NP: P is a power of two.
    """
    num_padded = values_NP.shape[1]
    wide = 1 << (num_padded.bit_length() // 2)
    tall = num_padded // wide
    squares = values_NP.reshape(-1, tall, wide) @ _matrix(wide, values_NP.dtype, values_NP.device)
    return (_matrix(tall, values_NP.dtype, values_NP.device) @ squares).reshape(-1, num_padded)


@functools.lru_cache(maxsize=16)
def _matrix(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    matrix = torch.ones((1, 1), dtype=dtype, device=device)
    while len(matrix) < size:
        upper, lower = torch.cat((matrix, matrix), dim=1), torch.cat((matrix, -matrix), dim=1)
        matrix = torch.cat((upper, lower))
    return matrix


def orthogonal_frequencies(
    *,
    dimension: int,
    largest_input: float,
    num_frequencies: int,
    seed: int,
    stream: int,
) -> OrthogonalFrequencies:
    """Draw the signs.

    Args:
        dimension: Inputs in a row, D.
        largest_input: Bound on the size of the integers that the private side feeds in.
        num_frequencies: F.
        seed: Public seed.
        stream: Of the signs.

    Raises:
        ValueError: If sums could be inexact.
    """
    size = padded(dimension)
    if float(size) ** 2 * largest_input > _EXACT:
        msg = "too many inputs for exact sums"
        raise ValueError(msg)
    signs = random_signs(seed, stream, num_signs(num_frequencies, dimension))
    signs_BCP = torch.from_numpy(signs.astype(np.float32).reshape(-1, _CHANGES, size))
    return OrthogonalFrequencies(
        signs_BCP=signs_BCP.to(compute_device()), num_frequencies=num_frequencies
    )
