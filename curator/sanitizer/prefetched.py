"""Noise drawn ahead by a thread of its own, so that a step does not wait for it.

Noise knows nothing of the data, so drawing it early releases nothing; each value is handed out
once, in the order in which it was drawn, and never to a forked child. Whether a step finds noise
ready depends on how busy the machine is, which is as public as the time of the step.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import final

import torch
from torch import Tensor

from curator.privacy.noise import NoiseSource

_CHUNK = 1 << 15
_LEAST = 1 << 13  # smaller requests share a chunk


@final
class PrefetchedNoise:
    """A `NoiseSource` that keeps some draws of another ready."""

    def __init__(self, source: NoiseSource, num_values: int) -> None:
        """Start to draw.

        Args:
            source: Where all randomness comes from.
            num_values: Draws of noise to keep ready, 8 bytes each; larger requests than that are
                drawn when they come.
        """
        self._source = source
        self._chunks: deque[Tensor] = deque()
        self._ready = 0
        self._most = num_values
        self._size = min(_CHUNK, num_values)  # of a chunk: what was last asked for, to fit whole
        self._is_due = True
        self._changed = threading.Condition()
        self._stopped = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._keep_drawing, daemon=True, name="noise")
        self._thread.start()

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws from the discrete Gaussian of standard deviation `LATTICE_STD`."""
        taken: list[Tensor] = []
        missing = num_values
        if self._pid == os.getpid():
            with self._changed:
                if _LEAST <= num_values <= self._most:
                    self._size = num_values
                while missing and self._chunks:
                    chunk = self._chunks.popleft()
                    if len(chunk) > missing:
                        self._chunks.appendleft(chunk[missing:])
                        chunk = chunk[:missing].clone()
                    taken.append(chunk)
                    missing -= len(chunk)
                self._ready -= num_values - missing
                if self._ready < num_values:  # the next one like it would wait
                    self._begin()
        if missing or not taken:
            taken.append(self._source.discrete_gaussian(missing))
        return taken[0] if len(taken) == 1 else torch.cat(taken)

    def uniform_words(self, num_words: int) -> Tensor:
        """Return int64 values whose 64 bits are uniform."""
        return self._source.uniform_words(num_words)

    def draw_ahead(self) -> None:
        """Fill up now: a good moment is when an answer has left, since a step is slower beside it.

        Without it noise is drawn when less is ready than was last asked for.
        """
        with self._changed:
            self._begin()

    def stop(self) -> None:
        """Draw no more, and forget what was drawn."""
        with self._changed:
            self._stopped = True
            self._chunks.clear()
            self._ready = 0
            self._changed.notify()
        self._thread.join()

    def _begin(self) -> None:
        self._is_due = self._ready < self._most
        if self._is_due:  # a thread that wakes for nothing takes Python's lock from a step
            self._changed.notify()

    def _has_work(self) -> bool:
        return self._stopped or (self._is_due and self._ready < self._most)

    def _keep_drawing(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._stopped:
                    return
                size = self._size - self._ready % self._size  # chunks end where requests will
            try:
                chunk = self._source.discrete_gaussian(size)
            except Exception:  # noqa: BLE001 - whoever needs noise next meets it where it is handled
                return
            with self._changed:
                if not self._stopped:
                    self._chunks.append(chunk)
                    self._ready += len(chunk)
                    self._is_due = self._ready < self._most
