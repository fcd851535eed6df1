"""Sources of noise that an audit can choose: none, public, or the same for two runs."""

from __future__ import annotations

import hashlib
import os
from typing import final

import numpy as np
import torch
from torch import Tensor

from curator.sanitizer.gaussian import Words, discrete_gaussian
from curator.sanitizer.lattice import LATTICE_STD

_WORD_BYTES = 8


@final
class Tape:
    """Random words by stream, drawn from the operating system once and kept for a second run."""

    def __init__(self) -> None:
        """Start with an empty tape."""
        self._streams: dict[str, Words] = {}

    def words(self, stream: str, start: int, stop: int) -> Words:
        """Return part of a stream."""
        known = self._streams.get(stream, np.empty(0, dtype=np.uint64))
        if len(known) < stop:
            fresh = np.frombuffer(os.urandom((stop - len(known)) * _WORD_BYTES), dtype=np.uint64)
            known = self._streams[stream] = np.concatenate((known, fresh))
        return known[start:stop].copy()


@final
class TapedNoise:
    """Plays a tape from its beginning through the production sampler, and counts."""

    def __init__(self, tape: Tape) -> None:
        """Begin at the start of each stream."""
        self._tape = tape
        self.taken: dict[str, int] = {}
        self.draws: list[int] = []

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws of the production sampler."""
        self.draws.append(num_values)
        values = discrete_gaussian(
            num_values,
            lambda count: self._take("gaussian", count),
            lambda count: self._take("refinement", count),
        )
        return torch.from_numpy(values)

    def uniform_words(self, num_words: int) -> Tensor:
        """Return int64 values whose 64 bits are uniform."""
        return torch.from_numpy(self._take("uniform", num_words).view(np.int64))

    def _take(self, stream: str, count: int) -> Words:
        start = self.taken.get(stream, 0)
        self.taken[stream] = start + count
        return self._tape.words(stream, start, start + count)


@final
class OtherSelections:
    """Turns every uniform word of a tape around, so that whatever was drawn is not drawn now."""

    def __init__(self, tape: Tape, noise: Tape) -> None:
        """Begin at the start of each stream.

        Args:
            tape: Of the words.
            noise: Of the noise: the same tape, or another one.
        """
        self._drawn, self._noise = TapedNoise(tape), TapedNoise(noise)

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws of the noise's own tape."""
        return self._noise.discrete_gaussian(num_values)

    def uniform_words(self, num_words: int) -> Tensor:
        """Return the complement of the tape's words."""
        return ~self._drawn.uniform_words(num_words)


@final
class ChosenNoise:
    """Adds one standard deviation to one of all its values, or nothing; its words are zeros."""

    def __init__(self, coordinate: int | None) -> None:
        """Choose the coordinate."""
        self._coordinate = coordinate
        self.num_values = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return the chosen integers."""
        start, self.num_values = self.num_values, self.num_values + num_values
        values = torch.zeros(num_values, dtype=torch.int64)
        if self._coordinate is not None and start <= self._coordinate < self.num_values:
            values[self._coordinate - start] = round(LATTICE_STD)
        return values

    def uniform_words(self, num_words: int) -> Tensor:
        """Return zeros."""
        return torch.zeros(num_words, dtype=torch.int64)


@final
class PublicWords:
    """Noise and words from a public hash: what an attacker can compute alone."""

    def __init__(self, number: int) -> None:
        """Begin stream `number`."""
        self._number = number
        self._calls = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return draws by the production sampler."""
        return torch.from_numpy(discrete_gaussian(num_values, self._words, self._words))

    def uniform_words(self, num_words: int) -> Tensor:
        """Return the next words of the stream."""
        return torch.from_numpy(self._words(num_words).view(np.int64))

    def _words(self, num_words: int) -> Words:
        self._calls += 1
        name = f"weir audit {self._number} {self._calls}".encode()
        digest = hashlib.shake_256(name).digest(num_words * _WORD_BYTES)
        return np.frombuffer(digest, dtype=np.uint64).copy()
