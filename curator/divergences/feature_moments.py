"""Rows about a released centre: how far a record's features are from it, and their products.

Everything is a function of one row of integers with its class below it, and of public numbers: sums
of products are integers below 2^53, and what follows is elementwise, so no bit of what is made of a
record depends on its companions.

Shape legend: M records, R features, K classes, S directions of the subspace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor

from curator.divergences.feature_maps import ROW_UNITS
from curator.divergences.random_features import FREQUENCY_GRID, standard_normals
from curator.privacy.toward_zero import toward_zero

MAX_DIRECTIONS: Final = 256
_DIRECTION_STEP: Final = 2.0**-14
_MARGIN: Final = 1 - 2.0**-30  # keeps rounding inside the ball; the integer check decides
_LEAST_RADIUS, _MOST_RADIUS = 2.0**-6, 2.0


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Centres:
    """Where the rows of each class are measured from, and how far they may be; all of it public.

    `integers_KR` are float64 integers of norm at most `ROW_UNITS`; `radius` is in units of the
    rows' norm.
    """

    integers_KR: Tensor
    radius: float

    @classmethod
    def of(cls, means_KR: Tensor, radius: float) -> Centres:
        """Return the nearest centres on the grid of rows, none of which is longer than a row."""
        norms_K1 = torch.linalg.vector_norm(means_KR, dim=1, keepdim=True)
        inside_KR = means_KR / norms_K1.clamp_min(1.0)
        return cls(integers_KR=toward_zero(inside_KR * ROW_UNITS), radius=radius)

    def rows(self, kept_MR: Tensor) -> Tensor:
        """Return how far rows are from the centre of their class, over the radius.

        Args:
            kept_MR: Integers of norm at most `ROW_UNITS`, with the class below them.

        Returns:
            float64 rows [M, R] of norm at most 1: longer ones are shortened.

        Privacy:
            Row i is a function of row i alone, bit for bit.
        """
        apart_MR, scale_M1 = self._apart(kept_MR)
        return apart_MR * scale_M1

    def product_rows(self, kept_MR: Tensor, directions_RS: Tensor) -> Tensor:
        """Return the products of coordinates in the subspace of what `rows` returns.

        Args:
            kept_MR: As for `rows`.
            directions_RS: Of `subspace`.

        Returns:
            float64 rows [M, S (S + 1) / 2] of norm at most 1: the upper triangle, row by row, off
            the diagonal times sqrt(2).

        Privacy:
            Row i is a function of row i alone, bit for bit.
        """
        apart_MR, scale_M1 = self._apart(kept_MR)
        whole_RS = torch.round(directions_RS / _DIRECTION_STEP).to(apart_MR)
        scale_M1 = scale_M1 * (_DIRECTION_STEP / longest(directions_RS))
        inside_MS = (apart_MR @ whole_RS) * scale_M1  # of exact sums below 2^43
        first_V, second_V = _upper(directions_RS.shape[1]).to(apart_MR.device)
        weights_V = torch.where(first_V == second_V, 1.0, math.sqrt(2)).to(apart_MR)
        return inside_MS[:, first_V] * inside_MS[:, second_V] * (weights_V * _MARGIN)

    def _apart(self, kept_MR: Tensor) -> tuple[Tensor, Tensor]:
        """Return exact differences, and what brings each to its length over the radius."""
        centres_KR = self.integers_KR.to(kept_MR.device)
        classes_M = kept_MR[:, -1].to(torch.int64).clamp(0, len(centres_KR) - 1)
        apart_MR = kept_MR[:, :-1].to(torch.float64) - centres_KR[classes_M]
        norms_M1 = apart_MR.square().sum(dim=1, keepdim=True).sqrt()  # of exact sums below 2^34
        return apart_MR, _MARGIN / norms_M1.clamp_min(self.radius * ROW_UNITS)


def spread_radius(means_KR: Tensor, counts_K: Tensor, variances_K: Tensor, scale: float) -> float:
    """Return `scale` times how far rows of norm 1 are from the mean of their class, as released.

    The mean squared distance is 1 - |mean|^2, and the noise of a mean makes it look smaller.

    Args:
        means_KR: Released.
        counts_K: Released, positive.
        variances_K: Of the noise in each coordinate of a mean.
        scale: Public.
    """
    squares_K = means_KR.square().sum(dim=1) - means_KR.shape[1] * variances_K
    share_K = counts_K / counts_K.sum()
    apart = float((share_K * (1 - squares_K).clamp(0, 1)).sum())
    return min(max(scale * math.sqrt(apart), _LEAST_RADIUS), _MOST_RADIUS)


def subspace(means_KR: Tensor, num_directions: int, seed: int) -> Tensor:
    """Return orthogonal directions: those in which classes differ most, then random ones.

    Args:
        means_KR: Released.
        num_directions: S, at most R.
        seed: Public.

    Returns:
        [R, S] on a grid of 2^-14, so orthogonal but for that.
    """
    centred_KR = means_KR - means_KR.mean(dim=0)
    num_classes, width = means_KR.shape
    drawn = standard_normals(seed, 0, width * num_directions) * FREQUENCY_GRID
    random_RS = torch.from_numpy(drawn).reshape(width, num_directions)
    leading_RK = torch.linalg.svd(centred_KR.T, full_matrices=False).U[:, : num_classes - 1]
    basis, _ = torch.linalg.qr(torch.cat((leading_RK, random_RS), dim=1))
    kept_RS = basis[:, :num_directions]
    return torch.round(kept_RS / _DIRECTION_STEP) * _DIRECTION_STEP


def longest(directions_RS: Tensor) -> float:
    """Return how much longer than a vector its coordinates in the subspace may be, at least 1."""
    return max(1.0, float(torch.linalg.matrix_norm(directions_RS, ord=2)))


def symmetric(products_HV: Tensor, num_directions: int) -> Tensor:
    """Return the matrices [H, S, S] of sums of what `product_rows` returns."""
    first_V, second_V = _upper(num_directions)
    halves_V = torch.where(first_V == second_V, 1.0, math.sqrt(0.5)).to(products_HV)
    made = products_HV.new_zeros((len(products_HV), num_directions, num_directions))
    made[:, first_V, second_V] = products_HV * halves_V
    made[:, second_V, first_V] = products_HV * halves_V
    return made


def _upper(size: int) -> Tensor:
    return torch.triu_indices(size, size)
