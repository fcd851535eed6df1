"""Fresh public directions for projections: integer columns whose angles are uniform, with a proof.

An entry is 128^2 X1 + 128 X2 + X3, each X a draw of the discrete Gaussian with parameter 512, so
it has the discrete Gaussian law of parameter `DIRECTION_STD` (gaussian.py). A column divided by its
length is then as close to a uniform direction as `direction_slack` says. Directions are drawn after
the private batch is fixed, by nobody's choice, and once; nothing depends on their being secret.

Shape legend: D coordinates of a row, K directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from curator.privacy.noise import NoiseSource
from curator.sanitizer.gaussian import Words, inversion_entries, invert

_STRIDE = 128
_DRAWS = 3
_CHUNK = 1 << 20  # entries at a time, so that words of a large matrix stay within megabytes
DIRECTION_STD = 512 * math.sqrt(1 + _STRIDE**2 + _STRIDE**4)

_SHORTEST = 0.5  # of the expected length; a shorter column projects nothing
_DEVIATION = 40.0  # of an entry from the continuous law that it rounds: proof in dp_swd.md
_ROUNDING = 1.008  # float64 lengths, and the constant 1.01 below, are far inside
MAX_SLACK_DIMENSION = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Directions:
    """Public directions.

    Attributes:
        integers_DK: Columns of exact integers, held as float64.
        inverse_lengths_K: One over the length of each column, 0 for one that is too short.
    """

    integers_DK: Tensor
    inverse_lengths_K: Tensor

    @property
    def unit_columns(self) -> Tensor:
        """The columns at length 1, for public arithmetic."""
        return self.integers_DK * self.inverse_lengths_K


def largest_entry() -> int:
    """Return a bound on the size of every entry."""
    return len(inversion_entries()) * (1 + _STRIDE + _STRIDE**2)


def direction_slack(dimension: int) -> float:
    """Return c such that rows divided by 1 + c cost no more than on exactly uniform directions.

    Returns:
        About 1.9e-5 sqrt(dimension).

    Raises:
        ValueError: If the dimension is not in [1, 2^20].

    Privacy:
        Proof: dp_swd.md, lemma 2. It holds while 2 c is below 0.04.
    """
    if not 1 <= dimension <= MAX_SLACK_DIMENSION:
        msg = f"dimension must be in [1, {MAX_SLACK_DIMENSION}]"
        raise ValueError(msg)
    distance = 2 * _DEVIATION / (_SHORTEST * DIRECTION_STD) * _ROUNDING
    return 1.01 * distance * math.sqrt(dimension)


def draw_directions(dimension: int, num_directions: int, noise: NoiseSource) -> Directions:
    """Draw directions that were never used before.

    Args:
        dimension: Coordinates of a row.
        num_directions: How many.
        noise: Randomness; three words an entry, and two for each word that does not decide.

    Privacy:
        They may be published: the charge lets everyone know them. What it needs is that the rows
        they will meet are fixed before, and that they are never used again.
    """

    def words(count: int) -> Words:
        return noise.uniform_words(count).numpy().view(np.uint64)

    size = dimension * num_directions
    entries = np.empty(size, dtype=np.float64)
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        drawn = invert(words(_DRAWS * (stop - start)), words).reshape(_DRAWS, -1)
        entries[start:stop] = (drawn[0] * _STRIDE + drawn[1]) * _STRIDE + drawn[2]
    integers_DK = torch.from_numpy(entries).reshape(dimension, num_directions)
    lengths_K = integers_DK.square().sum(dim=0).sqrt()
    long_K = lengths_K >= _SHORTEST * DIRECTION_STD * math.sqrt(dimension)
    inverse_K = torch.where(long_K, 1.0 / lengths_K.clamp_min(1.0), torch.zeros_like(lengths_K))
    return Directions(integers_DK=integers_DK, inverse_lengths_K=inverse_K)
