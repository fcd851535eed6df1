"""Release noisy projections of bounded rows, one row per sampled record, in random slots.

What each record adds is bounded alone and is the same, bit for bit, whoever its companions are:
rows and directions are integers, so their products are exact in any order, and what follows is
elementwise.

Shape legend: M slots, P pixels, D coordinates of a row, K directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import check_noise_multiplier
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.privacy.toward_zero import toward_zero
from curator.sanitizer.directions import Directions, direction_slack, largest_entry
from curator.sanitizer.lattice import LATTICE_STD

RecordRows = Callable[[Tensor, Tensor], Tensor]

_MARGIN = 1 - 2.0**-30  # below it every float64 rounding of a row's scale disappears
_EXACT = 1 << 53  # integers up to here are exact in float64
LONGEST_SQUARE: Final = 3 << 51  # squares that seem to sum to no more have an exact sum
_CUT = 1 << 9  # where the coordinates of long rows are cut in two


@dataclass(frozen=True, kw_only=True, slots=True)
class RowBounds:
    """How far one unit may move the projections, and the noise that hides it.

    Attributes:
        clip_norm: Bound R on the norm of each row, in the units of the integer rows.
        rows_per_unit: Bound m on the rows of one unit.
        noise_multiplier: Noise standard deviation over sqrt(m) R.
        is_long: Whether rows, by public numbers, may be too long for one exact product with a
            direction. Each coordinate is then cut in two, and so is the product.
    """

    clip_norm: float
    rows_per_unit: int
    noise_multiplier: float
    is_long: bool = False

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)
        if not 0 < self.clip_norm < math.inf or self.rows_per_unit < 1:
            msg = "clip_norm and rows_per_unit must be positive"
            raise ValueError(msg)

    def grid(self, dimension: int) -> float:
        """Return the lattice spacing, in the units of the integer rows.

        Args:
            dimension: Coordinates of a row; the directions are a little off uniform.
        """
        reach = self.noise_multiplier * math.sqrt(self.rows_per_unit) * self.clip_norm
        return reach * (1 + direction_slack(dimension)) / (_MARGIN * LATTICE_STD)


def longest_row() -> int:
    """Return how much the absolute values of a row may sum to for one exact product."""
    return _EXACT // largest_entry()


def release_projections(
    records: Private[RecordBatch],
    record_rows: RecordRows,
    directions: Directions,
    *,
    bounds: RowBounds,
    noise: NoiseSource,
) -> Release:
    """Return the noised projections of the rows of a Poisson sample.

    A record whose row cannot be computed, or has no exact projection, counts as zero; so does an
    empty slot. Of more than M / m units the last ones, which are as random as the first, are left
    out. A row longer than R is scaled to R. Slots are permuted uniformly.

    Args:
        records: The sample, units in the random order in which they were drawn.
        record_rows: Maps levels (M, P) and labels (M) to rows (M, D) of integers as float64; each
            row must be a function of its own record alone.
        directions: Fresh ones, drawn after the sample.
        bounds: Row norm, rows of a unit, and noise.
        noise: Secret randomness.

    Returns:
        A release of one lattice block (M, K) on `bounds.grid`.

    Privacy:
        The event is the sampled sliced Gaussian with this noise multiplier, the sample being full
        with M // m units. Proof: dp_swd.md.

    References:
        [rakotomamonjy:21], with the exact curve in place of its bounds.
    """
    batch = records.unseal()
    dimension = directions.integers_DK.shape[0]
    num_slots = batch.mask_M.shape[0]
    most_units = num_slots // bounds.rows_per_unit
    rows_MD = _exact_rows(batch, record_rows, dimension, most_units, is_long=bounds.is_long)
    scales_M = _limit(rows_MD, bounds.clip_norm) / bounds.grid(dimension)
    products_MK = torch.zeros(()).double()
    for part_MD, unit in _parts(rows_MD, is_long=bounds.is_long):
        products_MK = products_MK + (part_MD @ directions.integers_DK) * unit
    products_MK = products_MK * scales_M.unsqueeze(1) * directions.inverse_lengths_K
    integers_MK = toward_zero(products_MK).to(torch.int64)[random_order(num_slots, noise)]
    drawn_MK = noise.discrete_gaussian(integers_MK.numel()).reshape(integers_MK.shape)
    block = LatticeBlock(integers=integers_MK + drawn_MK, grid=bounds.grid(dimension))
    return Release(blocks=(block,))


def _exact_rows(
    batch: RecordBatch, record_rows: RecordRows, dimension: int, most_units: int, *, is_long: bool
) -> Tensor:
    """Return integer rows of kept records, and zeros, such that no product can be inexact.

    The absolute values of a row, or of either part of a long one, sum to at most 2^53 over the
    largest entry of a direction, so every partial sum of a projection is an integer below 2^53:
    exact in float64, in any order, fused or not. A row beyond that, or not of integers, is zero;
    the rule looks at this row alone.
    """
    kept_M = batch.mask_M & (batch.units_M >= 0) & (batch.units_M < most_units)
    shape = (batch.mask_M.shape[0], dimension)
    try:
        rows_MD = _checked(record_rows(batch.levels_MD, batch.labels_M), shape)
    except Exception:  # noqa: BLE001 - one record must not decide the fate of its companions
        lone = [
            _lone_row(levels, label, record_rows, dimension)
            for levels, label in zip(batch.levels_MD, batch.labels_M, strict=True)
        ]
        rows_MD = torch.cat(lone)
    exact_M = rows_MD.square().sum(dim=1) <= LONGEST_SQUARE  # false for NaN, as what follows
    for part_MD, _ in _parts(rows_MD, is_long=is_long):
        exact_M &= part_MD.abs().sum(dim=1) <= longest_row()
    whole_M = (rows_MD == toward_zero(rows_MD)).all(dim=1)
    return torch.where((kept_M & exact_M & whole_M).unsqueeze(1), rows_MD, torch.zeros(()).double())


def _parts(rows_MD: Tensor, *, is_long: bool) -> Iterator[tuple[Tensor, float]]:
    """Yield integers and a power of two, whose products sum to the rows, elementwise and exactly.

    Privacy:
        How many there are is public; row i of each is a function of row i.
    """
    if is_long:
        high_MD = torch.round(rows_MD / _CUT)
        yield high_MD, float(_CUT)
        rows_MD = rows_MD - high_MD * _CUT
    yield rows_MD, 1.0


def _lone_row(levels_P: Tensor, label: Tensor, record_rows: RecordRows, dimension: int) -> Tensor:
    """Return one record's row, or zeros when it cannot be computed."""
    try:
        return _checked(record_rows(levels_P.unsqueeze(0), label.unsqueeze(0)), (1, dimension))
    except Exception:  # noqa: BLE001 - the record contributes zero
        return torch.zeros((1, dimension), dtype=torch.float64)


def _checked(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return rows in float64 on the host.

    Raises:
        ValueError: If the rows have another shape.
    """
    if rows.shape != shape:
        msg = "rows have the wrong shape"
        raise ValueError(msg)
    return rows.detach().to("cpu", torch.float64)


def _limit(rows_MD: Tensor, clip_norm: float) -> Tensor:
    """Return for each row a factor that brings it to norm `clip_norm` at most.

    The squared norm is an exact integer (see `_exact_rows`), so the factor is within a few ulps of
    its definition.
    """
    norms_M = rows_MD.square().sum(dim=1).sqrt()
    return torch.where(norms_M > clip_norm, clip_norm / norms_M, torch.ones_like(norms_M))


def random_order(num_slots: int, noise: NoiseSource) -> Tensor:
    """Return a uniform permutation: slots sorted by 192 random bits each.

    Two slots agree in all bits with probability below num_slots^2 2^-192; else it is exact.
    """
    order = torch.arange(num_slots)
    for words in noise.uniform_words(3 * num_slots).reshape(3, num_slots).flip(0):
        order = order[torch.argsort(words[order], stable=True)]
    return order
