"""Secret randomness for production: ChaCha20 keystreams keyed by the operating system.

Noise, refinement words and sampling words come from separate streams. Keystream that was taken is
never derived again: keys live only in this object, are replaced after every mebibyte and in a
forked child, and there is no way to seed them. Who reads this memory later finds no key of noise
that is older than that.
"""

from __future__ import annotations

import os
import threading
from enum import StrEnum
from typing import final

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from torch import Tensor

from curator.sanitizer.gaussian import Words, discrete_gaussian
from curator.sanitizer.gaussian_on_device import discrete_gaussian_on_device

_PROCESSOR = torch.device("cpu")
_PIECE = 1 << 13  # draws at once: what is made on the way stays in a core's cache
_WORD_BYTES = 8
_REKEY_BYTES = 1 << 20  # a few steps; one ChaCha20 counter has 2^38


class _Domain(StrEnum):
    GAUSSIAN = "gaussian"
    REFINEMENT = "refinement"
    UNIFORM = "uniform"


class _Keystream:
    """One ChaCha20 keystream under a fresh key of the operating system."""

    def __init__(self) -> None:
        self._pid = -1
        self._taken = 0
        self._context: CipherContext | None = None

    def take(self, num_words: int) -> Words:
        """Return fresh uniform words and forget them."""
        size = num_words * _WORD_BYTES
        if self._context is None or self._pid != os.getpid() or self._taken + size > _REKEY_BYTES:
            algorithm = algorithms.ChaCha20(os.urandom(32), bytes(4) + os.urandom(12))
            self._context = Cipher(algorithm, mode=None).encryptor()
            self._pid, self._taken = os.getpid(), 0
        self._taken += size
        return np.frombuffer(self._context.update(bytes(size)), dtype=np.uint64)


@final
class OsEntropy:
    """The production `NoiseSource`."""

    def __init__(self, device: torch.device = _PROCESSOR) -> None:
        """Prepare streams; keys are drawn from the operating system at first use.

        Args:
            device: Where uniform words become draws; they are the same anywhere.
        """
        self._device = device
        self._lock = threading.Lock()
        self._streams = {domain: _Keystream() for domain in _Domain}

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws from the discrete Gaussian of standard deviation `LATTICE_STD`."""
        if self._device.type != "cpu":
            drawn = discrete_gaussian_on_device(
                num_values,
                lambda count: self._words(_Domain.GAUSSIAN, count).to(self._device),
                lambda count: self._words(_Domain.REFINEMENT, count).to(self._device),
            )
            return drawn.to("cpu")
        draws = np.empty(num_values, dtype=np.int64)
        for start in range(0, num_values, _PIECE):
            piece = draws[start : start + _PIECE]
            piece[:] = discrete_gaussian(
                len(piece),
                lambda count: self._take(_Domain.GAUSSIAN, count),
                lambda count: self._take(_Domain.REFINEMENT, count),
            )
        return torch.from_numpy(draws)

    def uniform_words(self, num_words: int) -> Tensor:
        """Return int64 values whose 64 bits are uniform."""
        return self._words(_Domain.UNIFORM, num_words)

    def _words(self, domain: _Domain, count: int) -> Tensor:
        return torch.from_numpy(self._take(domain, count).view(np.int64).copy())

    def _take(self, domain: _Domain, num_words: int) -> Words:
        with self._lock:
            return self._streams[domain].take(num_words)
