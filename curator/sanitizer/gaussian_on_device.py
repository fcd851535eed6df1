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
_LOW_BITS = 64


@functools.lru_cache(maxsize=8)
def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the top 63 and the low 64 bits of each boundary; the low ones with the sign turned."""
    entries = inversion_entries()
    high = torch.tensor([value >> _LOW_BITS for value in entries], dtype=torch.int64)
    low = torch.tensor(
        [(value & (2**_LOW_BITS - 1)) - 2**_TOP_BITS for value in entries], dtype=torch.int64
    )
    return high.to(device), low.to(device)


def invert_on_device(words: Tensor, refine: Callable[[int], Tensor]) -> Tensor:
    """Map uniform words to draws of X, as `gaussian.invert` does.

    Args:
        words: int64 views of uniform 64-bit words, on any device.
        refine: Returns that many fresh words from a stream of its own, on the same device.

    Returns:
        int64 draws of the discrete Gaussian with parameter 512.
    """
    high, low = _tables(words.device)
    bits = words & (2**_TOP_BITS - 1)
    index = torch.searchsorted(high, bits)  # boundaries that are certainly below
    last = high.numel() - 1
    tied = torch.nonzero((index <= last) & (high[index.clamp(max=last)] == bits)).reshape(-1)
    if tied.numel():
        turned = refine(tied.numel()) ^ (-(2**_TOP_BITS))  # unsigned order as signed order
        same = high.unsqueeze(0) == bits[tied].unsqueeze(1)
        index[tied] += (same & (low.unsqueeze(0) <= turned.unsqueeze(1))).sum(dim=1)
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
