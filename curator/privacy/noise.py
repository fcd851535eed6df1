"""The port through which all secret randomness enters; the production source is keyed by the OS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class NoiseSource(Protocol):
    """Secret randomness; every word is used once, and production cannot be seeded or replayed."""

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws from the discrete Gaussian of standard deviation `LATTICE_STD`."""
        ...

    def uniform_words(self, num_words: int) -> Tensor:
        """Return int64 values whose 64 bits are uniform (a two's complement view of uint64)."""
        ...
