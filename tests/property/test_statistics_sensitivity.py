"""Brute force over neighbouring data sets, sum by sum: each given what those before released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.mechanisms import feature_statistics
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import summed
from curator.sanitizer.lattice import lattice_radius
from tests.fakes import networks
from tests.fakes.networks import SPACE, mechanism
from tests.fakes.noise import SeededNoise

ROWS = 6
NOISES = (1.1, 1.2, 0.8, 1.3)  # of the first sums, two refinements and the moments

records = st.lists(
    st.tuples(
        st.lists(st.integers(0, 16), min_size=SPACE.dimension, max_size=SPACE.dimension),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=ROWS,
)
"""Levels, class and unit of each record."""


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("networks")
    networks.offer(made)
    return made


def batch_of(given: list[tuple[list[int], int, int]]) -> RecordBatch:
    count = len(given)
    padding = [([0] * SPACE.dimension, 0, -1)] * (ROWS - count)
    levels, labels, units = zip(*(*given, *padding), strict=True)
    return RecordBatch(
        levels_MD=torch.tensor(levels, dtype=torch.uint8),
        labels_M=torch.tensor(labels),
        mask_M=torch.arange(ROWS) < count,
        units_M=torch.tensor(units),
    )


def sums_of(
    subject: FeatureStatistics, inside: RecordBatch, before: list[Release] | None = None
) -> tuple[list[Tensor], list[Release]]:
    """Return the integers of each sum, and what was released of them.

    Args:
        subject: The mechanism.
        inside: All records.
        before: What is released in the place of the sums; noised ones if None.
    """
    found: list[Tensor] = []
    released: list[Release] = []
    real, noise = summed.release_class_sums, SeededNoise(1)

    def watched(*arguments: Any, **named: Any) -> Release:
        silent = real(*arguments, **(named | {"noise": _Silent()}))
        (block,) = silent.blocks
        assert isinstance(block, LatticeBlock)
        found.append(block.integers)
        made = real(*arguments, **named) if before is None else before[len(found) - 1]
        released.append(made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_statistics, "release_class_sums", watched)
        subject.setup([Private(inside)], noise)
    return found, released


class _Silent:
    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.zeros(num_values, dtype=torch.int64)


def furthest(subject: FeatureStatistics, inside: list[tuple[list[int], int, int]]) -> list[float]:
    """Return how far each sum is moved by the unit that moves it most, over its bound."""
    base, released = sums_of(subject, batch_of(inside))
    most = [0.0] * len(base)
    for unit in {one[2] for one in inside}:
        rest = [one for one in inside if one[2] != unit]
        other, _ = sums_of(subject, batch_of(rest), released)
        for number, (first, second) in enumerate(zip(base, other, strict=True)):
            moved = float((first - second).double().norm())
            bound = lattice_radius(NOISES[number], sensitivity_in_radii=1)
            most[number] = max(most[number], moved / bound)
    return most


def statistics(**changes: Any) -> FeatureStatistics:
    given: dict[str, Any] = {
        "refinements": list(NOISES[1:3]),
        "max_records_per_unit": ROWS,
        "max_size": 3,
    }
    return mechanism(**(given | changes))


@settings(deadline=None, max_examples=25)
@given(
    inside=records,
    moments=st.sampled_from(["together", "by-class"]),
    radius_scale=st.sampled_from([0.25, 1.0, 8.0]),
    width=st.integers(1, networks.NUM_FEATURES),
)
def test_one_unit_moves_each_sum_by_what_is_charged_at_most(
    inside: list[tuple[list[int], int, int]], moments: str, radius_scale: float, width: int
) -> None:
    subject = statistics(moments=moments, radius_scale=radius_scale, moment_width=width)
    found = furthest(subject, inside)
    assert len(found) == len(NOISES)
    assert max(found) <= 1


def one_dark_record() -> list[float]:
    return furthest(statistics(radius_scale=0.25), [([0] * SPACE.dimension, 1, 0)])


def test_the_bounds_are_reached_and_not_far_from_it() -> None:
    assert min(one_dark_record()[:3]) > 0.95


def test_rows_that_were_not_cut_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is exceeded without the certificate, where rows are not cut at the radius."""
    from curator.divergences import feature_moments

    monkeypatch.setattr(summed, "_squared_integers", lambda rows, _: 0 * rows[:, 0])
    monkeypatch.setattr(feature_moments, "_MARGIN", 3.0)
    found = one_dark_record()
    assert min(found[1:3]) > 2


def test_a_group_counted_as_its_records_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = [([0] * SPACE.dimension, 1, 0)] * 3
    assert max(furthest(statistics(), inside)) <= 1
    real = summed._add_units

    def apart(sums: Tensor, rows: Tensor, keys: Tensor, radius: int) -> None:
        classes = keys % len(sums)
        real(sums, rows, torch.arange(len(keys)) * len(sums) + classes, radius)

    monkeypatch.setattr(summed, "_add_units", apart)
    assert max(furthest(statistics(), inside)) > 2.5
