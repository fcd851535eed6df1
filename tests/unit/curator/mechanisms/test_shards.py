"""Shards: a unit goes where its own content says, and moves nobody."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.shards import Shards, gather_shards
from curator.privacy.batches import ImageSpace, RecordBatch
from curator.privacy.private import Private

SPACE = ImageSpace(channels=1, height=2, width=2, max_level=16, num_classes=3)
K = 4


def images(count: int, seed: int = 0) -> LabelledImages:
    generator = np.random.default_rng(seed)
    return LabelledImages(
        levels=generator.integers(0, 17, (count, 1, 2, 2), dtype=np.uint8),
        labels=generator.integers(0, 3, count),
    )


def chosen(stored: LabelledImages, rows: np.ndarray) -> LabelledImages:
    return LabelledImages(levels=stored.levels[rows], labels=stored.labels[rows])


def shards(
    stored: LabelledImages, *, capacity: int = 64, rows: int = 7, bound: int = 100
) -> Shards:
    return gather_shards(PrivateRecords(stored, bound).batches(rows), K, capacity, SPACE)


def contents(some: Shards) -> list[list[tuple[int, ...]]]:
    """Return the rows of each shard, in their order."""
    return [
        [
            (*map(int, some.levels_KPD[k, place]), int(some.labels_KP[k, place]))
            for place in range(int(some.counts_K[k]))
        ]
        for k in range(len(some.counts_K))
    ]


def test_every_record_is_in_one_shard() -> None:
    stored = images(60)
    found = sorted(row for shard in contents(shards(stored)) for row in shard)
    pixels = stored.levels.reshape(60, 4)
    assert found == sorted(
        (*map(int, row), int(label)) for row, label in zip(pixels, stored.labels, strict=True)
    )


def test_a_unit_goes_where_its_content_says() -> None:
    """Whatever its place, its companions, and the batches in which it comes."""
    stored = images(60)
    home = {row: k for k, shard in enumerate(contents(shards(stored))) for row in shard}
    order = np.random.default_rng(1).permutation(60)[:23]
    for rows in (1, 5, 64):
        some = shards(chosen(stored, order), rows=rows)
        assert all(home[row] == k for k, shard in enumerate(contents(some)) for row in shard)


def test_shards_have_about_equal_sizes() -> None:
    """Of 140 records in 4 shards; the hash is fixed, so there is no chance in it."""
    sizes = shards(images(140), capacity=200, bound=200).counts_K.tolist()
    assert sum(sizes) == 140
    assert min(sizes) > 15
    assert max(sizes) < 55


def test_one_unit_changes_one_shard_and_no_other_bit() -> None:
    stored = images(40)
    whole = shards(stored, capacity=9)  # full ones too
    for removed in range(40):
        rest = shards(chosen(stored, np.delete(np.arange(40), removed)), capacity=9)
        same = [
            torch.equal(whole.levels_KPD[k], rest.levels_KPD[k])
            and torch.equal(whole.labels_KP[k], rest.labels_KP[k])
            and torch.equal(whole.counts_K[k], rest.counts_K[k])
            for k in range(K)
        ]
        assert same.count(False) <= 1


def test_a_group_is_in_one_shard() -> None:
    stored = images(30)
    sizes = [1, 3, 5, 2, 4, 5, 1, 4, 5]
    grouped = LabelledImages(
        levels=stored.levels,
        labels=stored.labels,
        groups=np.repeat(np.arange(len(sizes)), sizes),
        max_per_group=5,
    )
    found = contents(shards(grouped))
    start = 0
    for size in sizes:
        pixels = stored.levels[start : start + size].reshape(size, 4)
        labels = stored.labels[start : start + size]
        rows = [(*map(int, row), int(one)) for row, one in zip(pixels, labels, strict=True)]
        assert any(all(row in shard for row in rows) for shard in found)
        start += size


def test_an_overfull_shard_keeps_its_first_rows() -> None:
    stored = images(60)
    full, cut = contents(shards(stored)), shards(stored, capacity=5)
    assert contents(cut) == [shard[:5] for shard in full]
    assert cut.levels_KPD.shape == (K, 5, 4)


@pytest.mark.parametrize("count", [0, 1])
def test_few_records_leave_empty_shards_of_the_same_shape(count: int) -> None:
    some = shards(images(count))
    assert some.levels_KPD.shape == (K, 64, 4)
    assert int(some.counts_K.sum()) == count
    assert int(some.levels_KPD.count_nonzero()) <= 4 * count


def test_padding_and_unknown_classes_are_left_out() -> None:
    batch = RecordBatch(
        levels_MD=torch.full((5, 4), 3, dtype=torch.uint8),
        labels_M=torch.tensor([0, 3, -1, 1, 1]),
        mask_M=torch.tensor([True, True, True, False, True]),
        units_M=torch.tensor([0, 1, 2, 3, -1]),
    )
    some = gather_shards([Private(batch)], K, 8, SPACE)
    assert [len(shard) for shard in contents(some)].count(1) == 1
    assert int(some.counts_K.sum()) == 1


def test_shards_say_nothing() -> None:
    assert repr(shards(images(3))) == "Shards(<sealed>)"
