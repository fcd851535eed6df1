"""Sums over records: every row is bounded alone, and one bad record costs nobody else anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from curator.privacy.private import Private
from curator.privacy.records import RecordBatch
from curator.privacy.release import LatticeBlock
from curator.sanitizer.lattice import lattice_radius
from curator.sanitizer.summed import release_class_sums
from tests.fakes.noise import NoNoise

Z = 1.6
RADIUS = lattice_radius(Z, sensitivity_in_radii=1)
WIDTH = 3


def batch(levels: list[int], labels: list[int], rows: int = 4) -> Private[RecordBatch]:
    padding = rows - len(levels)
    return Private(
        RecordBatch(
            levels_MD=torch.tensor([[v] for v in levels] + [[0]] * padding, dtype=torch.uint8),
            labels_M=torch.tensor(labels + [0] * padding),
            mask_M=torch.arange(rows) < len(levels),
        )
    )


def unit_rows(levels_MD: Tensor) -> Tensor:
    """Return a unit vector for each record, along axis level modulo 3."""
    return torch.nn.functional.one_hot(levels_MD[:, 0].long() % WIDTH, WIDTH).double()


def sums(
    batches: list[Private[RecordBatch]], rows: Callable[[Tensor], Tensor] = unit_rows
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
