"""Canaries: fair coins, outliers of the declared space, kept beside the images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from curator.data.canaries import (
    CANARIES_FILE,
    Canaries,
    draw_canaries,
    num_planted,
    packed,
    read_canaries,
    with_canaries,
)
from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.data.store import open_store, write_store
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


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a data set of five images and those canaries that are in."""
    levels = np.zeros((5, 3, 28, 20), np.uint8)
    images = LabelledImages(levels=levels, labels=np.zeros(5, np.int64))
    canaries = some(10)
    folder = tmp_path / "set"
    write_store(
        folder, with_canaries(images, canaries, tmp_path), {CANARIES_FILE: packed(canaries)}
    )
    return folder


def test_they_come_back_and_are_their_owner_s(stored: Path, tmp_path: Path) -> None:
    path = stored / CANARIES_FILE
    assert path.stat().st_mode & 0o077 == 0
    canaries = read_canaries(stored)
    assert canaries is not None
    levels = open_store(stored).levels
    assert num_planted(stored) == canaries.is_in.sum() == len(levels) - 5
    rows = canaries.levels[canaries.is_in].reshape(num_planted(stored), -1)
    assert np.array_equal(levels[5 : len(levels)], rows)
    plain = LabelledImages(levels=canaries.levels, labels=canaries.labels)
    write_store(tmp_path / "none", plain)
    assert read_canaries(tmp_path / "none") is None
    assert num_planted(tmp_path / "none") == 0


@pytest.mark.parametrize("spoil", [lambda data: data[:-30], lambda _: b"", lambda _: None])
def test_what_is_damaged_or_gone_is_not_taken_for_none(
    stored: Path, spoil: Callable[[bytes], bytes | None]
) -> None:
    path = stored / CANARIES_FILE
    content = spoil(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=r"canaries.npz .* restore the folder"):
        read_canaries(stored)
