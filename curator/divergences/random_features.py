"""Random Fourier features whose private side is exact integer arithmetic.

A record's row must not depend, in any bit, on its position or its companions: a matrix product in
floating point breaks that. Here frequencies are integers on a public grid and what they meet
(levels of pixels, or scattering coefficients) are integers, so every partial sum of the product is
an exact float64 integer, in any order. What follows (one multiplication, a reduction to a turn, a
table of cosines) is elementwise.

Gaussian frequencies are drawn one by one; structured orthogonal ones, of which a product takes
D log D instead of D F operations, are in `orthogonal_frequencies`.

Shape legend: N samples, M records, D inputs, F frequencies, 2F features (cosines, then sines).
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import numpy as np
import torch

from curator.divergences.device import compute_device
from curator.divergences.orthogonal_frequencies import orthogonal_frequencies
from curator.privacy.parts import values_at_once

if TYPE_CHECKING:
    from torch import Tensor

FREQUENCY_GRID = 2.0**-12
_LARGEST_NORMAL = 2.0**16  # on the grid: |normal| < 8.6
_EXACT = 2.0**53  # float64 holds every integer up to here
_TABLE_SIZE = 1 << 16
_MARGIN = 1 - 2.0**-40  # keeps rounding inside the unit ball
_DOMAIN = "weir random fourier features v1"


def standard_normals(
    seed: int, stream: int, num_values: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return public normal draws on the frequency grid, as integers, pinned by seed and stream.

    SHAKE-256 of the text "<domain>|seed|stream" gives little-endian 64-bit words; words 2i and
    2i+1, cut to 53 bits, give one Box-Muller pair in float64, rounded to multiples of 2^-12. The
    rounding hides the last bits in which mathematics libraries differ.

    Args:
        seed: Public seed.
        stream: Index of an independent stream under the seed.
        num_values: Number of draws.

    Returns:
        Integers k (as float64) standing for k * 2^-12.

    References:
        [box:58].
    """
    num_pairs = (num_values + 1) // 2
    digest = hashlib.shake_256(f"{_DOMAIN}|{seed}|{stream}".encode("ascii"))
    words = np.frombuffer(digest.digest(16 * num_pairs), dtype="<u8").reshape(num_pairs, 2) >> 11
    radius = np.sqrt(-2.0 * np.log((words[:, 0] + 1) * 2.0**-53))
    angle = 2.0 * math.pi * (words[:, 1] * 2.0**-53)
    pairs = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
    return np.rint(pairs.reshape(-1)[:num_values] / FREQUENCY_GRID)


@functools.lru_cache(maxsize=2)
def _cosine_table(device: torch.device) -> Tensor:
    """Return cos(2 pi i / 2^16) for every i."""
    turns = (index / _TABLE_SIZE for index in range(_TABLE_SIZE))
    cosines = [math.cos(2 * math.pi * turn) for turn in turns]
    return torch.tensor(cosines, dtype=torch.float64, device=device)


class Frequencies(Protocol):
    """Public directions, each of integers times one public unit."""

    @property
    def unit(self) -> float:
        """What the integer 1 stands for."""
        ...

    @property
    def num_frequencies(self) -> int:
        """Number F of directions."""
        ...

    def exact_products(self, integers_MD: Tensor) -> Tensor:
        """Return float64 integers (M, F) of float64 integers, exact."""
        ...

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return products (N, F) in the dtype of the inputs; differentiable."""
        ...


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GaussianFrequencies:
    """Independent standard normal numbers on a grid."""

    normals_DF: Tensor  # float32 integers, exact
    unit: float = FREQUENCY_GRID

    @property
    def num_frequencies(self) -> int:
        """Number F of directions."""
        return self.normals_DF.shape[1]

    def exact_products(self, integers_MD: Tensor) -> Tensor:
        """Return float64 integers (M, F): see `fourier_features` for why they are exact."""
        return integers_MD @ self.normals_DF.to(torch.float64)

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return products (N, F) in the dtype of the inputs."""
        return inputs_ND @ self.normals_DF.to(inputs_ND.dtype)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FourierFeatures:
    """Cosines and sines at random frequencies of one or several bandwidths; |phi| = 1.

    The kernel is the mean over the bandwidths b of exp(-|u - v|^2 / (2 b^2)).

    References:
        [rahimi:07]; [harder:21], section 3.
    """

    frequencies: Frequencies
    inverse_bandwidths_F: Tensor  # float64

    @property
    def num_features(self) -> int:
        """Width 2F of a feature row."""
        return 2 * self.frequencies.num_frequencies

    def exact_rows(self, integers_MD: Tensor, unit: float) -> Tensor:
        """Return the features of integer inputs, each row a function of its own integers alone.

        Args:
            integers_MD: Integers below `largest_input`, as float64; an input is integer * unit.
            unit: Public.

        Returns:
            float64 rows (M, 2F) of norm at most 1, and at least 1 - 2^-39.

        Privacy:
            Bit for bit, row i depends on row i of the integers only: no sensitivity is lost to
            rounding.
        """
        sums_MF = self.frequencies.exact_products(integers_MD)
        scales_F = self._scales() * (unit / (2 * math.pi))
        table = _cosine_table(sums_MF.device) * self._amplitude
        rows_M2F = sums_MF.new_empty((sums_MF.shape[0], self.num_features))
        size = max(1, values_at_once(sums_MF.device) // self.num_features)
        parts = torch.split(sums_MF, size), torch.split(rows_M2F, size)
        for sums, rows in zip(*parts, strict=True):
            turns = sums * scales_F
            nearest = turns.sub_(turns.floor()).mul_(_TABLE_SIZE).add_(0.5).floor_()
            cosines = nearest.to(torch.int64).bitwise_and_(_TABLE_SIZE - 1)
            rows[:, : sums.shape[1]] = table.index_select(0, cosines.view(-1)).view_as(sums)
            sines = cosines.sub_(_TABLE_SIZE // 4).bitwise_and_(_TABLE_SIZE - 1)
            rows[:, sums.shape[1] :] = table.index_select(0, sines.view(-1)).view_as(sums)
        return rows_M2F

    def rows(self, inputs_ND: Tensor) -> Tensor:
        """Return the features of public inputs in ordinary floating point; differentiable.

        Returns:
            Rows (N, 2F) in the dtype of the inputs.
        """
        products_NF = self.frequencies.products(inputs_ND)
        phases_NF = products_NF * self._scales().to(inputs_ND.dtype)
        return torch.cat((phases_NF.cos(), phases_NF.sin()), dim=1) * self._amplitude

    @property
    def _amplitude(self) -> float:
        return _MARGIN / math.sqrt(self.frequencies.num_frequencies)

    def _scales(self) -> Tensor:
        return self.inverse_bandwidths_F * self.frequencies.unit


@functools.lru_cache(maxsize=4)  # a run is planned, opened and resumed with the same ones
def fourier_features(
    *,
    dimension: int,
    largest_input: float,
    num_features: int,
    bandwidths: tuple[float, ...],
    seed: int,
    first_stream: int = 0,
) -> FourierFeatures:
    """Draw public Gaussian frequencies.

    Args:
        dimension: Inputs in a row, D.
        largest_input: Bound on the size of the integers that the private side feeds in.
        num_features: Total width 2F, a multiple of twice the number of bandwidths.
        bandwidths: Kernel scales in units of the inputs; each gets an equal share of the features.
        seed: Public seed.
        first_stream: Stream of the first bandwidth; the others follow it.

    Returns:
        The feature map, on the device that the curator computes on.

    Raises:
        ValueError: If the features cannot be shared equally, or sums of products could be inexact.
    """
    share = _share(num_features, bandwidths)
    if dimension * _LARGEST_NORMAL * largest_input > _EXACT:
        msg = "too many inputs for exact sums"
        raise ValueError(msg)
    parts = [
        standard_normals(seed, first_stream + index, dimension * share).reshape(share, dimension).T
        for index in range(len(bandwidths))
    ]
    normals_DF = torch.from_numpy(np.concatenate(parts, axis=1).astype(np.float32))
    frequencies = GaussianFrequencies(normals_DF=normals_DF.contiguous().to(compute_device()))
    return _features(frequencies, bandwidths)


@functools.lru_cache(maxsize=4)
def orthogonal_features(
    *,
    dimension: int,
    largest_input: float,
    num_features: int,
    bandwidths: tuple[float, ...],
    seed: int,
    first_stream: int = 0,
) -> FourierFeatures:
    """Draw public frequencies that are orthogonal to each other: `orthogonal_frequencies`.

    Args:
        dimension: As for `fourier_features`.
        largest_input: As for `fourier_features`.
        num_features: As for `fourier_features`.
        bandwidths: As for `fourier_features`; they share the directions of one stream.
        seed: Public seed.
        first_stream: The stream.

    Returns:
        The feature map, on the device that the curator computes on.

    Raises:
        ValueError: As `fourier_features`.
    """
    _share(num_features, bandwidths)
    frequencies = orthogonal_frequencies(
        dimension=dimension,
        largest_input=largest_input,
        num_frequencies=num_features // 2,
        seed=seed,
        stream=first_stream,
    )
    return _features(frequencies, bandwidths)


def _share(num_features: int, bandwidths: tuple[float, ...]) -> int:
    """Return how many frequencies a bandwidth has.

    Raises:
        ValueError: If they cannot be shared equally.
    """
    share, rest = divmod(num_features, 2 * len(bandwidths))
    if rest or share < 1:
        msg = "num_features must be a positive multiple of twice the number of bandwidths"
        raise ValueError(msg)
    return share


def _features(frequencies: Frequencies, bandwidths: tuple[float, ...]) -> FourierFeatures:
    share = frequencies.num_frequencies // len(bandwidths)
    inverse = [1 / bandwidth for bandwidth in bandwidths for _ in range(share)]
    return FourierFeatures(
        frequencies=frequencies,
        inverse_bandwidths_F=torch.tensor(inverse, dtype=torch.float64, device=compute_device()),
    )
