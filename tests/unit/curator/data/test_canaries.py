"""Canaries: fair coins, outliers of the declared space, kept beside the images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from curator.data.canaries import (
    Canaries,
    draw_canaries,
    read_canaries,
    with_canaries,
    write_canaries,
)
from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from tests.fakes.facts import small_facts

SPACE = small_facts(height=28, width=20, channels=3, max_level=255).space


def some(count: int = 200) -> Canaries:
    return draw_canaries(SPACE, count)


def test_they_are_black_and_white_outliers_of_the_declared_space() -> None:
    canaries = some()
    assert canaries.levels.shape == (200, 3, 28, 20)
    assert canaries.levels.dtype == np.uint8
    assert set(np.unique(canaries.levels).tolist()) == {0, 255}
    assert set(canaries.labels.tolist()) <= {0, 1, 2}
    rows = canaries.levels.reshape(200, -1) > 0
    apart = (rows[:100] != rows[100:]).mean(axis=1)
    assert apart.min() > 0.25  # 192 blocks, half of which differ
    blocks = canaries.levels[0, 0, :, 0]
    assert np.count_nonzero(np.diff(blocks.astype(int))) <= 7


def test_a_deep_space_has_its_own_white_and_a_small_one_no_more_blocks_than_pixels() -> None:
    deep = draw_canaries(small_facts(max_level=4000).space, 10)
    assert deep.levels.dtype == np.dtype("<u2")
    assert set(np.unique(deep.levels).tolist()) <= {0, 4000}
    assert deep.levels.shape == (10, 1, 2, 2)


def test_the_coins_are_fair_and_tossed_anew() -> None:
    first, second = some(10_000).is_in, some(10_000).is_in
    for coins in (first, second, first == second):
        assert abs(coins.mean() - 0.5) < 0.03  # six standard deviations
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("count", [0, 9, 10_001])
def test_too_few_or_too_many(count: int) -> None:
    with pytest.raises(ValueError, match="from 10 to 10,000"):
        draw_canaries(SPACE, count)


def test_those_that_are_in_stand_behind_the_images_each_a_group_of_its_own(tmp_path: Path) -> None:
    canaries = some(30)
    levels = np.arange(4 * 3 * 28 * 20).reshape(4, 3, 28, 20).astype(np.uint8)
    images = LabelledImages(levels=levels, labels=np.arange(4), groups=np.array([1, 0, 1, 0]))
    both = with_canaries(images, canaries, tmp_path)
    num_in = int(canaries.is_in.sum())
    assert np.array_equal(both.levels[:4], levels)
    assert np.array_equal(both.levels[4:], canaries.levels[canaries.is_in])
    assert np.array_equal(both.labels, [0, 1, 2, 3, *canaries.labels[canaries.is_in]])
    assert both.groups is not None
    assert both.groups.tolist() == [1, 0, 1, 0, *range(2, 2 + num_in)]
    assert both.levels.dtype == np.uint8
    assert not list(tmp_path.iterdir())  # the scratch has no name


def test_they_come_back_and_are_their_owner_s(tmp_path: Path) -> None:
    assert read_canaries(tmp_path) is None
    canaries = some(10)
    write_canaries(tmp_path, canaries)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    again = read_canaries(tmp_path)
    assert again is not None
    for name in ("levels", "labels", "is_in"):
        assert np.array_equal(getattr(again, name), getattr(canaries, name))


@pytest.mark.parametrize("spoil", [lambda data: data[:-30], lambda _: b"", lambda _: b"words"])
def test_a_damaged_file_is_named(tmp_path: Path, spoil: object) -> None:
    write_canaries(tmp_path, some(10))
    (path,) = tmp_path.iterdir()
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(SourceError, match="restore the file"):
        read_canaries(tmp_path)
