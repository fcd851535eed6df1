"""Sums over records: every row is bounded alone, and one bad record costs nobody else anything."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.lattice import lattice_radius
from curator.sanitizer.summed import (
    FeatureRows,
    KeptRows,
    _certified_units,
    _squared_integers,
    release_class_sums,
)
from tests.fakes.noise import NoNoise

Z = 1.6
RADIUS = lattice_radius(Z, sensitivity_in_radii=1)
WIDTH = 3


def batch(
    levels: list[int], labels: list[int], rows: int = 4, units: list[int] | None = None
) -> Private[RecordBatch]:
    padding = rows - len(levels)
    numbers = list(range(len(levels))) if units is None else units
    return Private(
        RecordBatch(
            levels_MD=torch.tensor([[v] for v in levels] + [[0]] * padding, dtype=torch.uint8),
            labels_M=torch.tensor(labels + [0] * padding),
            mask_M=torch.arange(rows) < len(levels),
            units_M=torch.tensor(numbers + [-1] * padding),
        )
    )


def unit_rows(levels_MD: Tensor) -> Tensor:
    """Return a unit vector for each record, along axis level modulo 3."""
    return torch.nn.functional.one_hot(levels_MD[:, 0].long() % WIDTH, WIDTH).double()


def sums(
    batches: list[Private[RecordBatch]], rows: FeatureRows | KeptRows = unit_rows
) -> list[list[int]]:
    (block,) = release_class_sums(
        batches, rows, num_features=WIDTH, num_classes=2, noise_multiplier=Z, noise=NoNoise()
    ).blocks
    assert isinstance(block, LatticeBlock)
    assert block.grid == 1.0 / RADIUS
    values: list[list[int]] = block.integers.tolist()
    return values


def test_rows_are_summed_by_class_without_padding() -> None:
    total = sums([batch([0, 1, 4], [0, 1, 1]), batch([2], [0])])
    assert total == [[RADIUS, 0, RADIUS], [0, 2 * RADIUS, 0]]


def test_no_records_give_zero() -> None:
    assert sums([]) == sums([batch([], [])]) == [[0] * WIDTH] * 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1.001, 5.0, 1e300])
def test_a_row_that_is_not_bounded_contributes_nothing(value: float) -> None:
    def rows(levels_MD: Tensor) -> Tensor:
        made = unit_rows(levels_MD)
        made[levels_MD[:, 0] == 4] *= value
        return made

    assert sums([batch([0, 4, 1], [0, 0, 1])], rows) == sums([batch([0, 1], [0, 1])])


def test_a_record_that_raises_does_not_take_its_companions_along() -> None:
    def rows(levels_MD: Tensor) -> Tensor:
        if bool((levels_MD == 4).any()):
            raise RuntimeError("damaged")
        return unit_rows(levels_MD)

    assert sums([batch([0, 4, 1], [0, 0, 1])], rows) == sums([batch([0, 1], [0, 1])])


def test_a_label_out_of_range_contributes_nothing() -> None:
    assert sums([batch([0, 1], [7, 1])]) == sums([batch([1], [1])])


@pytest.mark.parametrize("features", [0, (1 << 17) + 1])
def test_a_width_that_could_overflow_is_refused(features: int) -> None:
    with pytest.raises(ValueError, match="num_features"):
        release_class_sums(
            [], unit_rows, num_features=features, num_classes=2, noise_multiplier=Z, noise=NoNoise()
        )


def norm(total: list[list[int]]) -> float:
    return float(torch.tensor(total).double().norm())


@pytest.mark.parametrize(
    "labels", [[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]], ids=["one class", "two", "in order"]
)
def test_a_unit_of_several_records_is_bounded_over_all_classes(labels: list[int]) -> None:
    """Counted as four records it would move the sums by 4 / sqrt(2) to 4 radii."""
    whole = sums([batch([1, 1, 1, 1], labels, units=[0, 0, 0, 0])])
    assert RADIUS - 3 <= norm(whole) <= RADIUS
    records = sums([batch([1, 1, 1, 1], labels)])
    assert norm(records) > 2.8 * RADIUS
    again = sums([batch([1, 1, 1, 1], labels, units=[3, 3, 3, 3])])
    assert again == whole  # the number of a unit is only a name


def test_a_unit_below_the_bound_is_left_alone() -> None:
    def small(levels_MD: Tensor) -> Tensor:
        return unit_rows(levels_MD) * 0.3

    unscaled = sums([batch([0, 1, 4], [0, 1, 1])], small)
    grouped = sums([batch([0, 1, 4], [0, 1, 1], units=[0, 0, 0])], small)
    assert norm(unscaled) < RADIUS
    # the unit is truncated once, not once for each of its records
    assert (torch.tensor(grouped) - torch.tensor(unscaled)).abs().max() <= 2
    assert grouped == [[int(0.3 * RADIUS), 0, 0], [0, int(0.6 * RADIUS), 0]]


@pytest.mark.parametrize("value", [torch.nan, 1.001, 1e300])
def test_a_bad_record_is_left_out_of_its_unit(value: float) -> None:
    def rows(levels_MD: Tensor) -> Tensor:
        made = unit_rows(levels_MD)
        made[levels_MD[:, 0] == 4] *= value
        return made

    damaged = sums([batch([0, 4, 1], [0, 0, 1], units=[0, 0, 0])], rows)
    assert damaged == sums([batch([0, 1], [0, 1], units=[0, 0])], rows)
    outside = sums([batch([0, 4, 1], [0, 9, 1], units=[0, 0, 0])])
    assert outside == damaged


def uneven_rows(levels_MD: Tensor) -> Tensor:
    """Return rows whose float64 sums depend on the order in which they are added."""
    values = levels_MD.double()
    rows = torch.cat((values.sin(), (values * 1.7).cos(), (values + 0.3).sin()), dim=1)
    norms = rows.square().sum(dim=1, keepdim=True).sqrt()
    return torch.mul(rows / norms, 1 - 2**-40)


def test_a_unit_does_not_know_its_companions() -> None:
    """Each unit adds the same integers alone, with others, at another place and in any batch."""
    generator = torch.Generator().manual_seed(5)
    units = [
        (torch.randint(0, 250, (size,), generator=generator).tolist(), [i % 2 for i in range(size)])
        for size in (1, 2, 3, 7, 20)
    ]

    def packed(order: list[int]) -> Private[RecordBatch]:
        levels = [level for one in order for level in units[one][0]]
        labels = [label for one in order for label in units[one][1]]
        numbers = [place for place, one in enumerate(order) for _ in units[one][0]]
        return batch(levels, labels, rows=40, units=numbers)

    alone = [torch.tensor(sums([packed([one])], uneven_rows)) for one in range(5)]
    for one in alone:
        assert int(one.square().sum()) <= RADIUS**2
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 1]):
        together = torch.tensor(sums([packed(order)], uneven_rows))
        assert torch.equal(together, torch.stack([alone[one] for one in order]).sum(dim=0))
    apart = torch.tensor(sums([packed([2, 0]), packed([4]), packed([1, 3])], uneven_rows))
    assert torch.equal(apart, torch.stack(alone).sum(dim=0))


def test_interleaved_units_are_the_same_units() -> None:
    side_by_side = sums([batch([9, 8, 7, 6], [0, 0, 1, 0], units=[0, 0, 1, 1])], uneven_rows)
    mixed = sums([batch([9, 7, 8, 6], [0, 1, 0, 0], units=[0, 1, 0, 1])], uneven_rows)
    assert mixed == side_by_side


def test_one_record_in_each_unit_changes_nothing() -> None:
    """The integers are those of each record truncated on its own."""
    levels, labels = [3, 9, 27, 81], [0, 1, 1, 0]
    total = torch.zeros((2, WIDTH), dtype=torch.int64)
    for level, label in zip(levels, labels, strict=True):
        row = uneven_rows(torch.tensor([[level]], dtype=torch.uint8))[0]
        total[label] += torch.trunc(row / (1.0 / RADIUS)).to(torch.int64)
    assert sums([batch(levels, labels)], uneven_rows) == total.tolist()


def test_a_unit_that_scaling_leaves_outside_the_ball_adds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The integer certificate has the last word, whatever float64 did."""
    monkeypatch.setattr("curator.sanitizer.summed._MARGIN", 1.01)
    assert norm(sums([batch([1, 1, 1], [0, 1, 0], units=[0, 0, 0])])) == 0
    assert norm(sums([batch([1, 1], [0, 1], units=[0, 1])])) > RADIUS


def test_parts_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(60, WIDTH, dtype=torch.float64, generator=generator) * 0.4
    values[3, 2], values[9] = math.nan, math.inf
    labels, units = [row % 3 for row in range(60)], [row // 4 for row in range(60)]
    given = batch(list(range(60)), labels, rows=64, units=units)

    def rows(levels: Tensor) -> Tensor:
        return values[levels[:, 0].to(torch.int64)]

    whole = sums([given], rows)
    monkeypatch.setattr("curator.sanitizer.summed.values_at_once", lambda _: 2 * WIDTH)
    assert sums([given], rows) == whole


def test_the_certificate_of_a_unit_does_not_overflow() -> None:
    """Many classes, each with a coordinate far above the radius: certified as integers, refused."""
    huge = torch.full((400, 1 << 10), 2**40, dtype=torch.int64)
    unit_of = torch.zeros(400, dtype=torch.int64)
    squares = _squared_integers(huge, 6_600_000)
    assert not bool(_certified_units(squares, unit_of, 1, 6_600_000).any())
    assert bool(_certified_units(squares * 0, unit_of, 1, 1).all())


def test_rows_that_were_made_before_are_summed_like_levels() -> None:
    batches = [batch([0, 1, 4], [0, 1, 1]), batch([2], [0])]
    kept = [one.unseal().levels_MD + 3 for one in batches]
    made = KeptRows(rows_of=lambda rows: unit_rows(rows - 3), kept=kept)
    assert sums(batches, made) == sums(batches)
    assert repr(made) == "KeptRows(<sealed>)"


@pytest.mark.parametrize("labels", [[0, 0, 1], [1, 0, 1]])
def test_all_classes_together_are_one_row_of_the_same_bound(labels: list[int]) -> None:
    made = KeptRows(rows_of=unit_rows, together=True)
    assert sums([batch([0, 1, 4], labels)], made) == [[RADIUS, 2 * RADIUS, 0]]
    assert sums([batch([0, 1, 4], [0, 7, -1])], made) == [[RADIUS, 0, 0]]
    alike = batch([0, 0, 0], labels, units=[0, 0, 0])
    ((along, *rest),) = sums([alike], made)
    assert 0.999 * RADIUS < along <= RADIUS
    assert rest == [0, 0]
