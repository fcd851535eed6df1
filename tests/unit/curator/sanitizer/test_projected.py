from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.directions import Directions, direction_slack, draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD, LATTICE_VARIANCE
from curator.sanitizer.projected import (
    RecordRows,
    RowBounds,
    random_order,
    release_projections,
)

SLOTS, PIXELS, CLASSES = 6, 9, 3
DIMENSION = PIXELS + CLASSES


class QuietOrder:
    """No noise; slots stay in their order, as equal words are kept by a stable sort."""

    def __init__(self) -> None:
        self.draws: list[int] = []
        self.words: list[int] = []

    def discrete_gaussian(self, num_values: int) -> Tensor:
        self.draws.append(num_values)
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        self.words.append(num_words)
        return torch.zeros(num_words, dtype=torch.int64)


def rows_of(levels: Tensor, labels: Tensor) -> Tensor:
    classes = (labels.unsqueeze(1) == torch.arange(CLASSES)).double() * 40
    return torch.cat((levels.double() * 2 - 16, classes), dim=1)


def batch(num_records: int = 5, units: list[int] | None = None, seed: int = 0) -> RecordBatch:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(SLOTS) < num_records
    levels = torch.randint(0, 17, (SLOTS, PIXELS), generator=generator).to(torch.uint8)
    labels = torch.randint(0, CLASSES, (SLOTS,), generator=generator)
    numbers = torch.tensor(units if units is not None else list(range(SLOTS)))
    return RecordBatch(
        levels_MD=levels * mask.unsqueeze(1),
        labels_M=labels * mask,
        mask_M=mask,
        units_M=torch.where(mask, numbers, -1),
    )


def bounds(clip_norm: float = 30.0, units: int = 1, z: float = 1.1) -> RowBounds:
    return RowBounds(clip_norm=clip_norm, rows_per_unit=units, noise_multiplier=z)


def fresh(num_directions: int = 4) -> Directions:
    """Return directions that are all long enough to project: in few dimensions some are not."""
    while True:
        directions = draw_directions(DIMENSION, num_directions, OsEntropy())
        if bool((directions.inverse_lengths_K > 0).all()):
            return directions


def integers(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def project(
    one: RecordBatch,
    directions: Directions,
    limits: RowBounds | None = None,
    rows: RecordRows = rows_of,
) -> Tensor:
    noise = QuietOrder()
    limits = limits or bounds()
    released = release_projections(Private(one), rows, directions, bounds=limits, noise=noise)
    assert noise.draws == [SLOTS * directions.inverse_lengths_K.numel()]
    assert noise.words == [3 * SLOTS]
    return integers(released)


@pytest.mark.parametrize("num_records", [0, 1, SLOTS])
def test_empty_slots_are_zero_and_the_shape_is_public(num_records: int) -> None:
    found = project(batch(num_records), fresh())
    assert found.shape == (SLOTS, 4)
    assert found[num_records:].abs().sum() == 0
    assert bool((found[:num_records] != 0).all())


def test_values_are_the_projections_of_clipped_rows() -> None:
    one, directions, limits = batch(SLOTS), fresh(7), bounds(clip_norm=35.0)
    rows = rows_of(one.levels_MD, one.labels_M)
    norms = rows.norm(dim=1, keepdim=True)
    assert bool((norms > 35).any())
    assert bool((norms < 35).all()) is False
    wanted = (rows * (35 / norms).clamp(max=1)) @ directions.unit_columns
    values = project(one, directions, limits).double() * limits.grid(DIMENSION)
    assert float((values - wanted).abs().max()) <= limits.grid(DIMENSION) * (1 + 1e-9)


@pytest.mark.parametrize("clip_norm", [1e-3, 30.0, 1e5])
@pytest.mark.parametrize(("units", "z"), [(1, 0.01), (1, 0.7), (3, 1.1), (6, 300.0)])
def test_no_entry_is_above_its_projection_in_exact_arithmetic(
    clip_norm: float, units: int, z: float
) -> None:
    """k <= |w n| R / (max(|w|, R) |n|) * s / (z sqrt(m) R), squared, and divided by 1 + c."""
    one, directions = batch(SLOTS, units=[0] * SLOTS), fresh(5)
    rows = rows_of(one.levels_MD, one.labels_M).to(torch.int64).tolist()
    columns = directions.integers_DK.to(torch.int64).T.tolist()
    found = project(one, directions, bounds(clip_norm, units, z)).tolist()
    shrink = Fraction(1 + direction_slack(DIMENSION)) ** 2
    for i, row in enumerate(rows):
        longest = max(Fraction(sum(w * w for w in row)), Fraction(clip_norm) ** 2)
        for j, column in enumerate(columns):
            length = sum(n * n for n in column)
            product = sum(w * n for w, n in zip(row, column, strict=True)) ** 2
            scaled = found[i][j] ** 2 * shrink * Fraction(z) ** 2 * units * longest * length
            used = directions.inverse_lengths_K[j] > 0
            assert scaled <= product * LATTICE_VARIANCE * bool(used)


def test_what_a_record_adds_does_not_know_its_companions() -> None:
    directions, full = fresh(33), batch(SLOTS)
    whole = project(full, directions)
    for kept in range(SLOTS):
        mask = torch.arange(SLOTS) == kept
        lone = RecordBatch(
            levels_MD=full.levels_MD * mask.unsqueeze(1),
            labels_M=full.labels_M * mask,
            mask_M=mask,
            units_M=torch.where(mask, full.units_M, -1),
        )
        assert project(lone, directions)[kept].equal(whole[kept])
        assert project(lone, directions).count_nonzero(dim=1).nonzero().tolist() == [[kept]]


def test_units_beyond_those_that_always_fit_are_left_out() -> None:
    grouped = batch(SLOTS, units=[0, 0, 1, 2, 2, 3])  # three rows a unit: two units fit
    found = project(grouped, fresh(), bounds(units=3))
    assert found.count_nonzero(dim=1).bool().tolist() == [True, True, True, False, False, False]


def test_a_record_that_raises_does_not_take_its_companions_along() -> None:
    def rows(levels: Tensor, labels: Tensor) -> Tensor:
        if bool((labels == 2).any()):
            msg = "a record of class 2"
            raise RuntimeError(msg)
        return rows_of(levels, labels)

    one, directions = batch(SLOTS, seed=3), fresh()
    bad = one.labels_M == 2
    assert 0 < int(bad.sum()) < SLOTS
    found, whole = project(one, directions, rows=rows), project(one, directions)
    assert found[~bad].equal(whole[~bad])
    assert found[bad].abs().sum() == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5, 1e12, 2.0**60])
def test_a_row_that_has_no_exact_projection_contributes_nothing(value: float) -> None:
    def rows(levels: Tensor, labels: Tensor) -> Tensor:
        made = rows_of(levels, labels)
        made[1, 0] = value
        return made

    directions = fresh()
    found, whole = project(batch(SLOTS), directions, rows=rows), project(batch(SLOTS), directions)
    assert found[1].abs().sum() == 0
    keep = torch.arange(SLOTS) != 1
    assert found[keep].equal(whole[keep])


def test_rows_of_the_wrong_shape_are_zeros() -> None:
    def rows(levels: Tensor, labels: Tensor) -> Tensor:
        return rows_of(levels, labels)[:, 1:]

    assert project(batch(SLOTS), fresh(), rows=rows).abs().sum() == 0


def test_every_order_of_slots_is_as_likely() -> None:
    """Of 12,000 orders of 3 slots; each count within 6 deviations, 6 of them: chance below 2e-8."""
    counts: dict[tuple[int, ...], int] = {}
    source, trials = OsEntropy(), 12_000
    for _ in range(trials):
        order = tuple(random_order(3, source).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    spread = math.sqrt(trials * (1 / 6) * (5 / 6))
    assert all(abs(count - trials / 6) < 6 * spread for count in counts.values())


def test_the_order_comes_from_all_192_bits() -> None:
    class Words:
        def discrete_gaussian(self, num_values: int) -> Tensor:
            raise NotImplementedError

        def uniform_words(self, num_words: int) -> Tensor:
            assert num_words == 12
            # Of four slots three agree in their high words, and two of those in the middle ones.
            return torch.tensor([5, 5, -1, 5, 3, 2, 9, 2, 0, 7, 0, 6])

    assert random_order(4, Words()).tolist() == [2, 3, 1, 0]


def test_noise_is_added_in_every_slot_and_slots_are_permuted() -> None:
    directions = fresh(2)
    full = integers(
        release_projections(
            Private(batch(2)), rows_of, directions, bounds=bounds(z=1e-2), noise=OsEntropy()
        )
    )
    assert bool((full != 0).all())
    firsts = set()
    for _ in range(200):  # the first of two large rows is in each slot sooner or later
        released = release_projections(
            Private(batch(1)), rows_of, fresh(40), bounds=bounds(z=1e-2), noise=OsEntropy()
        )
        firsts.add(int(integers(released).double().norm(dim=1).argmax()))
    assert firsts == set(range(SLOTS))


def test_the_grid_is_noise_over_reach() -> None:
    limits = bounds(clip_norm=30.0, units=4, z=1.5)
    std = limits.grid(DIMENSION) * LATTICE_STD
    assert std == pytest.approx(1.5 * 2 * 30, rel=1e-3)
    assert std > 1.5 * 2 * 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip_norm": 0.0},
        {"clip_norm": math.inf},
        {"clip_norm": math.nan},
        {"units": 0},
        {"z": 0.0},
        {"z": math.nan},
    ],
)
def test_wrong_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        bounds(**wrong)  # type: ignore[arg-type]
