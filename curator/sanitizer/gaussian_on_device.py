"""The same inversion in torch, for noise that is made where the tensors are.

Integers only: for the same words it gives the same draws as `gaussian.py`, bit for bit, on every
device. The keystream is made by the host's cipher and copied over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from curator.sanitizer.gaussian import inversion_entries

_STRIDE = 128
_TOP_BITS = 63
_WORD_BITS = 64


@functools.lru_cache(maxsize=8)
def _tables(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the top 63 bits of each boundary, and two more words with the sign turned."""
    entries = inversion_entries()

    def word(place: int) -> Tensor:
        low = ((value >> (place * _WORD_BITS)) & (2**_WORD_BITS - 1) for value in entries)
        return torch.tensor([one - 2**_TOP_BITS for one in low], dtype=torch.int64).to(device)

    high = torch.tensor([value >> (2 * _WORD_BITS) for value in entries], dtype=torch.int64)
    return high.to(device), word(1), word(0)


def invert_on_device(words: Tensor, refine: Callable[[int], Tensor]) -> Tensor:
    """Map uniform words to draws of X, as `gaussian.invert` does.

    Args:
        words: int64 views of uniform 64-bit words, on any device.
        refine: Returns that many fresh words from a stream of its own, on the same device.

    Returns:
        int64 draws of the discrete Gaussian with parameter 512.
    """
    high, middle, low = _tables(words.device)
    bits = words & (2**_TOP_BITS - 1)
    index = torch.searchsorted(high, bits)  # boundaries that are certainly below
    last = high.numel() - 1
    tied = torch.nonzero((index <= last) & (high[index.clamp(max=last)] == bits)).reshape(-1)
    if tied.numel():
        turned = refine(2 * tied.numel()) ^ (-(2**_TOP_BITS))  # unsigned order as signed order
        upper, lower = turned[0::2].unsqueeze(1), turned[1::2].unsqueeze(1)
        same = high.unsqueeze(0) == bits[tied].unsqueeze(1)
        is_reached = (middle < upper) | ((middle == upper) & (low <= lower))
        index[tied] += (same & is_reached).sum(dim=1)
    return torch.where(words < 0, -index, index)


def discrete_gaussian_on_device(
    num_values: int, words: Callable[[int], Tensor], refine: Callable[[int], Tensor]
) -> Tensor:
    """Draw from the discrete Gaussian of standard deviation `LATTICE_STD`.

    Args:
        num_values: How many draws.
        words: Returns that many fresh uniform words on the wanted device.
        refine: The same from a stream of its own, almost never asked.

    Returns:
        int64 draws on that device.

    Privacy:
        As `gaussian.discrete_gaussian`.
    """
    draws = invert_on_device(words(2 * num_values), refine)
    return _STRIDE * draws[:num_values] + draws[num_values:]
