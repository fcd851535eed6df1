"""Sampling is exact, padded, and never raises after it has looked."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.privacy.event_numbers import SamplingRate
from tests.fakes.noise import NoNoise, SeededNoise


def records(count: int) -> LabelledImages:
    levels = (np.arange(count) + 1).astype(np.uint8).reshape(count, 1, 1, 1)
    return LabelledImages(levels=levels, labels=np.arange(count) % 3)


def grouped(*sizes: int) -> LabelledImages:
    """Return groups of these sizes; the level of every record of group g is g + 1."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return LabelledImages(
        levels=(owner + 1).astype(np.uint8).reshape(-1, 1, 1, 1),
        labels=np.arange(len(owner)),
        groups=owner,
        max_per_group=max(sizes, default=1),
    )


class CountedWords:
    """A seeded stream that remembers how many words were asked for."""

    def __init__(self, seed: int) -> None:
        self._inner = SeededNoise(seed)
        self.asked: list[int] = []

    def uniform_words(self, num_words: int) -> Tensor:
        self.asked.append(num_words)
        return self._inner.uniform_words(num_words)

    def discrete_gaussian(self, num_values: int) -> Tensor:
        raise AssertionError("sampling draws no noise")


@pytest.mark.parametrize("count", [0, 1, 20, 4_000])
def test_words_drawn_follow_the_capacity_not_the_data_set(count: int) -> None:
    private, noise = PrivateRecords(records(count)), CountedWords(2)
    for _ in range(20):
        private.poisson_batch(SamplingRate.at_least(1 / 7), 9, noise)
    assert noise.asked == [2, 9] * 20  # a refusal has probability below 2^-52


def test_rate_one_takes_everything_and_overflow_keeps_a_subset() -> None:
    batch = PrivateRecords(records(5)).poisson_batch(SamplingRate(1 << 64), 3, NoNoise()).unseal()
    assert batch.levels_MD[:, 0].tolist() == [1, 2, 3]
    assert bool(batch.mask_M.all())
    kept = set()
    for seed in range(40):
        drawn = PrivateRecords(records(5)).poisson_batch(
            SamplingRate(1 << 64), 3, SeededNoise(seed)
        )
        kept.add(tuple(sorted(drawn.unseal().levels_MD[:, 0].tolist())))
    assert len(kept) == 10  # every subset of 3 of 5


@pytest.mark.statistical
def test_every_set_of_records_has_the_probability_of_independent_inclusions() -> None:
    """Chi-square of 12,000 samples of 5 records in 32 classes; false alarm 1e-6 (83.7 at 31).

    A rate that is wrong by 0.02 adds 100 to it.
    """
    rate, noise, draws = SamplingRate.at_least(0.4), SeededNoise(8), 12_000
    private = PrivateRecords(records(5))
    seen: Counter[frozenset[int]] = Counter()
    for _ in range(draws):
        batch = private.poisson_batch(rate, 5, noise).unseal()
        seen[frozenset(batch.levels_MD[batch.mask_M, 0].tolist())] += 1
    statistic = 0.0
    for size in range(6):
        for taken in itertools.combinations(range(1, 6), size):
            expected = draws * 0.4**size * 0.6 ** (5 - size)
            statistic += (seen[frozenset(taken)] - expected) ** 2 / expected
    assert statistic < 83.7


@pytest.mark.statistical
def test_every_set_of_groups_has_the_probability_of_independent_inclusions() -> None:
    """Chi-square of 10,000 samples of 4 groups in 16 classes; false alarm 1e-6 (56.5 at 15).

    A rate that is wrong by 0.02 adds 67 to it.
    """
    rate, noise, draws = SamplingRate.at_least(0.4), SeededNoise(9), 10_000
    private = PrivateRecords(grouped(3, 1, 2, 5))
    seen: Counter[frozenset[int]] = Counter()
    for _ in range(draws):
        batch = private.poisson_batch(rate, 11, noise).unseal()
        seen[frozenset(batch.levels_MD[batch.mask_M, 0].tolist())] += 1
    statistic = 0.0
    for size in range(5):
        for taken in itertools.combinations(range(1, 5), size):
            expected = draws * 0.4**size * 0.6 ** (4 - size)
            statistic += (seen[frozenset(taken)] - expected) ** 2 / expected
    assert statistic < 56.5


def test_a_batch_holds_whole_groups_and_only_whole_groups() -> None:
    sizes = (3, 1, 2, 5, 4)
    private, noise = PrivateRecords(grouped(*sizes)), SeededNoise(4)
    cut = 0
    for _ in range(300):
        batch = private.poisson_batch(SamplingRate.at_least(0.7), 8, noise).unseal()
        assert torch.equal(batch.mask_M, batch.units_M >= 0)
        rows = batch.levels_MD[batch.mask_M, 0].tolist()
        for group, times in Counter(rows).items():
            assert times == sizes[group - 1]
        pairs = set(zip(rows, batch.units_M[batch.mask_M].tolist(), strict=True))
        assert len(pairs) == len(set(rows))  # one unit number for each group
        for group in set(rows):  # in stored order
            labels = batch.labels_M[batch.levels_MD[:, 0] == group]
            assert torch.equal(labels, labels.sort().values)
        cut += len(rows) < 8 and len(set(rows)) < len(sizes)
    assert cut


def test_an_overflowing_group_ends_the_batch_and_a_smaller_sample_is_unchanged() -> None:
    private = PrivateRecords(grouped(3, 4, 1))
    whole = private.poisson_batch(SamplingRate(1 << 64), 6, NoNoise()).unseal()
    assert whole.levels_MD[:, 0].tolist() == [1, 1, 1, 0, 0, 0]
    assert whole.units_M.tolist() == [0, 0, 0, -1, -1, -1]
    wide = private.poisson_batch(SamplingRate(1 << 64), 10, NoNoise()).unseal()
    assert wide.levels_MD[:, 0].tolist() == [1, 1, 1, 2, 2, 2, 2, 3, 0, 0]
    assert wide.units_M.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, -1, -1]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_shapes_are_public_whatever_is_sampled(count: int) -> None:
    rate = SamplingRate.at_least(1e-9)
    batch = PrivateRecords(records(count)).poisson_batch(rate, 4, SeededNoise(1)).unseal()
    assert batch.levels_MD.shape == (4, 1)
    assert batch.labels_M.shape == batch.mask_M.shape == batch.units_M.shape == (4,)
    assert not bool(batch.mask_M.any())


def test_a_record_that_cannot_be_read_is_left_out_alone() -> None:
    images = records(4)
    private = PrivateRecords(images)
    private._labels = np.array([0, 1, "damaged", 2], dtype=object)
    batch = private.poisson_batch(SamplingRate(1 << 64), 4, NoNoise()).unseal()
    whole = PrivateRecords(images).poisson_batch(SamplingRate(1 << 64), 4, NoNoise()).unseal()
    damaged = whole.levels_MD[:, 0] == 3
    assert batch.mask_M.equal(whole.mask_M & ~damaged)
    assert batch.levels_MD.equal(whole.levels_MD * ~damaged.unsqueeze(1))
    assert batch.units_M.equal(whole.units_M.where(~damaged, -1))


def test_a_record_that_was_not_sampled_changes_nothing() -> None:
    """Rows beyond the sample's size are copied too; a damaged one among them must not matter."""
    private = PrivateRecords(records(4))
    private._labels = np.array([0, 1, "damaged", 2], dtype=object)
    rate, sizes = SamplingRate.at_least(0.5), set()
    for seed in range(200):
        expected = PrivateRecords(records(4)).poisson_batch(rate, 6, SeededNoise(seed)).unseal()
        batch = private.poisson_batch(rate, 6, SeededNoise(seed)).unseal()
        damaged = expected.levels_MD[:, 0] == 3
        assert torch.equal(batch.levels_MD, expected.levels_MD * ~damaged.unsqueeze(1))
        assert torch.equal(batch.units_M, expected.units_M.where(~damaged, -1))
        if not bool(damaged.any()):
            sizes.add(int(batch.mask_M.sum()))
    assert sizes == {0, 1, 2, 3}


def test_as_many_rows_are_copied_whatever_is_sampled() -> None:
    class Watched:
        def __init__(self, inner: np.ndarray) -> None:
            self.inner = inner
            self.rows: list[int] = []

        def __getitem__(self, rows: np.ndarray) -> np.ndarray:
            self.rows.append(len(set(rows.tolist())))
            return self.inner.take(rows, axis=0)

    private, noise = PrivateRecords(records(200)), SeededNoise(6)
    watched = Watched(records(200).levels.reshape(200, 1))
    private._levels = watched  # type: ignore[assignment]
    counts = set()
    for _ in range(50):
        batch = private.poisson_batch(SamplingRate.at_least(0.02), 12, noise).unseal()
        counts.add(int(batch.mask_M.sum()))
    assert len(counts) > 3
    assert set(watched.rows) == {12}  # distinct records, also beyond the sample's size


@pytest.mark.statistical
def test_the_rate_is_met() -> None:
    """Count of 200,000 Bernoulli draws; false alarm below 1e-9 (6.1 standard deviations)."""
    rate = SamplingRate.at_least(1 / 7)
    count = 200_000
    images = LabelledImages(
        levels=np.zeros((count, 1, 1, 1), dtype=np.uint8), labels=np.zeros(count, dtype=np.int64)
    )
    batch = PrivateRecords(images).poisson_batch(rate, count, SeededNoise(5)).unseal()
    taken = int(batch.mask_M.sum())
    assert abs(taken - count / 7) < 6.1 * (count * 6 / 49) ** 0.5


def test_every_record_once_in_batches_of_one_shape() -> None:
    batches = [sealed.unseal() for sealed in PrivateRecords(records(10)).batches(4)]
    assert [batch.levels_MD.shape for batch in batches] == [(4, 1)] * 3
    levels = torch.cat([batch.levels_MD[batch.mask_M, 0] for batch in batches])
    assert levels.tolist() == list(range(1, 11))


@pytest.mark.parametrize("rows", [1, 5, 6, 7, 20, 100])
def test_no_unit_is_split_between_batches(rows: int) -> None:
    sizes = (3, 1, 2, 5, 4, 1, 1, 5)
    batches = [sealed.unseal() for sealed in PrivateRecords(grouped(*sizes)).batches(rows)]
    assert {batch.levels_MD.shape for batch in batches} == {(max(rows, 9), 1)}
    seen: list[int] = []
    for batch in batches:
        assert torch.equal(batch.mask_M, batch.units_M >= 0)
        groups = batch.levels_MD[batch.mask_M, 0].tolist()
        assert not set(groups) & set(seen)
        assert len(set(groups)) == len(set(batch.units_M[batch.mask_M].tolist()))
        seen += groups
    assert seen == [group + 1 for group, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.parametrize(
    ("groups", "most"),
    [
        ([0, 1, 0], 2),
        ([0, 2, 2], 2),
        ([1, 1, 2], 2),
        ([0, 0, 0], 2),
        ([0, 0], 2),
        ([0, 0, 1], None),
    ],
)
def test_damaged_groups_are_noticed_when_they_are_loaded(
    groups: list[int], most: int | None
) -> None:
    images = records(3)
    damaged = LabelledImages(
        levels=images.levels,
        labels=images.labels,
        groups=np.array(groups),
        max_per_group=most,
    )
    with pytest.raises(ValueError, match="group"):
        PrivateRecords(damaged)


def test_the_container_prints_nothing() -> None:
    assert repr(PrivateRecords(records(3))) == "PrivateRecords(<sealed>)"


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 12])
def test_the_number_of_batches_is_public(count: int) -> None:
    batches = list(PrivateRecords(records(count), max_units=12).batches(4))
    assert len(batches) == 3
    taken = sum(int(batch.unseal().mask_M.sum()) for batch in batches)
    assert taken == count


def test_more_units_than_declared_are_refused() -> None:
    with pytest.raises(ValueError, match="declared bound"):
        PrivateRecords(records(5), max_units=4)


@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_the_words_of_a_draw_are_public(count: int) -> None:
    """Nothing is refused at these sizes with probability 1 - 1e-15."""

    class Counting(SeededNoise):
        taken = 0

        def uniform_words(self, num_words: int) -> Tensor:
            self.taken += num_words
            return super().uniform_words(num_words)

    noise = Counting(1)
    PrivateRecords(records(count)).poisson_batch(SamplingRate.at_least(0.1), 6, noise)
    assert noise.taken == 6 + 2
