"""The release of projections costs what is charged, by simulation, and planted faults cost more.

The moment of a release is the mean of exp(a (a - 1) |K|^2 / (2 s^2)) over fresh directions, K being
the lattice integers that one unit adds. False alarm of each test that says "those charged": six
standard deviations of the mean, below 2e-9; the deviation is known from the moment at twice t.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from curator.accounting.events.sliced_gaussian import SlicedGaussianEvent, log_sliced_moment
from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer import projected
from curator.sanitizer.directions import draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD
from curator.sanitizer.projected import RowBounds, release_projections

pytestmark = pytest.mark.statistical

DIMENSION, CLIP_NORM, Z = 8, 20.0, 1.0
BLOCK, BLOCKS = 4000, 15  # directions at once, and how often


class NoNoise:
    def __init__(self) -> None:
        self._source = OsEntropy()

    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return self._source.uniform_words(num_words)


def rows_of(levels: Tensor, labels: Tensor) -> Tensor:
    del labels
    return levels.double()


def unit(rows: list[list[int]]) -> RecordBatch:
    count = len(rows)
    return RecordBatch(
        levels_MD=torch.tensor(rows, dtype=torch.uint8),
        labels_M=torch.zeros(count, dtype=torch.int64),
        mask_M=torch.ones(count, dtype=torch.bool),
        units_M=torch.zeros(count, dtype=torch.int64),
    )


ROW = [200, 3, 0, 40, 255, 1, 0, 17]
ONE = unit([ROW])
SAME = unit([ROW] * 3)
MIXED = unit([ROW, [0, 255, 0, 0, 3, 3, 9, 100], [9, 9, 200, 9, 9, 9, 9, 9]])


def moment(batch: RecordBatch, alpha: float, rows_per_unit: int) -> float:
    """Return the mean over single directions; a release of k of them has its k-th power."""
    bounds = RowBounds(clip_norm=CLIP_NORM, rows_per_unit=rows_per_unit, noise_multiplier=Z)
    noise, total = NoNoise(), 0.0
    for _ in range(BLOCKS):
        directions = draw_directions(DIMENSION, BLOCK, noise)
        release = release_projections(
            Private(batch), rows_of, directions, bounds=bounds, noise=noise
        )
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        squares = block.integers.double().square().sum(dim=0) / LATTICE_STD**2
        total += float((alpha * (alpha - 1) / 2 * squares).exp().mean())
    return total / BLOCKS


def charged(alpha: float, times: float = 1.0) -> float:
    """Return M at `times` the exponent."""
    event = SlicedGaussianEvent(dimension=DIMENSION, num_projections=1, noise_multiplier=Z)
    return math.exp(log_sliced_moment(event, alpha, math.sqrt(times)))


def deviation(alpha: float) -> float:
    return math.sqrt((charged(alpha, 2.0) - charged(alpha) ** 2) / (BLOCK * BLOCKS))


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_the_moments_of_a_release_are_those_charged(alpha: float) -> None:
    limit = charged(alpha) + 6 * deviation(alpha)
    assert charged(alpha) - 6 * deviation(alpha) - 0.01 <= moment(ONE, alpha, 1) <= limit
    assert moment(SAME, alpha, 3) <= limit
    assert moment(MIXED, alpha, 3) <= limit


def test_a_row_that_is_not_clipped_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projected, "_limit", lambda rows, _: torch.ones(len(rows)).double() * 0.1)
    assert 0.1 * math.hypot(*ROW) > 1.5 * CLIP_NORM
    assert moment(ONE, 2.0, 1) > charged(2.0) + 6 * deviation(2.0)


def test_a_group_that_is_counted_as_one_record_costs_more() -> None:
    assert moment(SAME, 2.0, 1) > charged(2.0) + 6 * deviation(2.0)


def test_the_same_directions_in_every_step_would_cost_more() -> None:
    """A record that lies along a known direction moves as far as its length."""
    directions = draw_directions(DIMENSION, 1, OsEntropy())
    while not directions.inverse_lengths_K.all():  # too short to project anything
        directions = draw_directions(DIMENSION, 1, OsEntropy())
    along = directions.integers_DK[:, 0]
    row = (along / along.abs().max() * 250).round()
    bounds = RowBounds(clip_norm=CLIP_NORM, rows_per_unit=1, noise_multiplier=Z)
    release = release_projections(
        Private(unit([row.abs().to(torch.int64).tolist()])),
        lambda levels, _: levels.double() * row.sign(),
        directions,
        bounds=bounds,
        noise=NoNoise(),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    shift = float(block.integers.double().square().sum()) / LATTICE_STD**2
    assert math.exp(shift) > 2 * charged(2.0)
