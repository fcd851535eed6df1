"""Brute force over neighbouring batches: no release moves further than its declared sensitivity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.directions import draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD

SPACE = ImageSpace(channels=1, height=2, width=2, max_level=3, num_classes=2)
CAPACITY = 6
NOISE_MULTIPLIER = 1.1

records_strategy = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(0, 1)), max_size=5
)
seeds = st.integers(0, 2**31 - 1)
PIXELS: dict[str, Any] = {"num_features": 8, "bandwidths": [0.5, 2.0]}
WAVES: dict[str, Any] = {"num_scattering_features": 12, "scattering_bandwidths": [0.2, 0.4, 0.8]}
maps = st.sampled_from(
    [
        PIXELS,
        {"feature_map": "scattering-rff", "num_features": 0, "bandwidths": []} | WAVES,
        {"feature_map": "mix", "scattering_share": 0.7} | PIXELS | WAVES,
        {"feature_map": "mix-sorf", "scattering_share": 0.7} | PIXELS | WAVES,
    ]
)


class NoNoise:
    def discrete_gaussian(self, num_values: int) -> Tensor:
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return torch.zeros(num_words, dtype=torch.int64)


def batch(records: list[tuple[list[int], int]]) -> Private[RecordBatch]:
    padded = records + [([0] * 4, 0)] * (CAPACITY - len(records))
    return Private(
        RecordBatch(
            levels_MD=torch.tensor([levels for levels, _ in padded], dtype=torch.uint8),
            labels_M=torch.tensor([label for _, label in padded]),
            mask_M=torch.arange(CAPACITY) < len(records),
            units_M=torch.tensor([i if i < len(records) else -1 for i in range(CAPACITY)]),
        )
    )


def integers(release: Release) -> Tensor:
    block = release.blocks[0]
    assert isinstance(block, LatticeBlock)
    return block.integers


def squared_shift(first: Release, second: Release) -> int:
    return int((integers(first) - integers(second)).square().sum())


@settings(deadline=None, max_examples=60)
@given(records=records_strategy, extra=records_strategy.filter(bool), seed=seeds)
def test_sinkhorn_gradient_moves_by_at_most_two_clip_norms(
    records: list[tuple[list[int], int]], extra: list[tuple[list[int], int]], seed: int
) -> None:
    spec = DpSinkhornSpec(
        sampling_rate=0.5,
        capacity=CAPACITY,
        num_samples=3,
        num_debias=1,
        clip_norm=0.5,
        noise_multiplier=NOISE_MULTIPLIER,
        reg=0.05,
        l1_weight=1.0,
        label_scale=15.0,
        schedule="published",
    )
    mechanism = DpSinkhorn(spec, SPACE)
    images = torch.rand(4, 4, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    samples = Samples(images_ND=images, labels_N=torch.tensor([0, 1, 0, 0]))
    base = mechanism.gradient(samples, batch(records), NoNoise())
    neighbours = [[*records, extra[0]]]
    neighbours += [records[:i] + records[i + 1 :] for i in range(len(records))]
    for neighbour in neighbours:
        other = mechanism.gradient(samples, batch(neighbour), NoNoise())
        shift = math.sqrt(squared_shift(base, other))
        assert NOISE_MULTIPLIER * shift <= LATTICE_STD  # noise std over sensitivity, lattice units
        assert torch.equal(base.blocks[1].values, other.blocks[1].values)  # type: ignore[union-attr]


@settings(deadline=None, max_examples=60)
@given(records=records_strategy.filter(bool), scale=st.floats(1e-3, 10), seed=seeds, chosen=maps)
def test_embedding_sums_move_by_at_most_one_row(
    records: list[tuple[list[int], int]], scale: float, seed: int, chosen: dict[str, Any]
) -> None:
    spec = MeanEmbeddingSpec(
        **chosen,
        feature_seed=seed,
        noise_multiplier=NOISE_MULTIPLIER,
        count_scale=scale,
    )
    mechanism = MeanEmbedding(spec, SPACE)
    base = mechanism.setup([batch(records)], NoNoise())
    for removed in range(len(records)):
        neighbour = records[:removed] + records[removed + 1 :]
        shift = math.sqrt(squared_shift(base, mechanism.setup([batch(neighbour)], NoNoise())))
        assert NOISE_MULTIPLIER * shift <= LATTICE_STD
        assert shift > 0.99 * LATTICE_STD / NOISE_MULTIPLIER  # and the bound is tight


def grouped(people: list[list[tuple[list[int], int]]]) -> PrivateRecords:
    """Return the records of several people, kept side by side."""
    records = [record for person in people for record in person]
    owner = [number for number, person in enumerate(people) for _ in person]
    levels = np.array([levels for levels, _ in records], dtype=np.uint8)
    return PrivateRecords(
        LabelledImages(
            levels=levels.reshape(-1, 1, 2, 2),
            labels=np.array([label for _, label in records], dtype=np.int64),
            groups=np.array(owner, dtype=np.int64),
            max_per_group=5,
        )
    )


@settings(deadline=None, max_examples=60)
@given(
    people=st.lists(records_strategy.filter(bool), min_size=1, max_size=4),
    rows=st.integers(1, 12),
    scale=st.floats(1e-3, 10),
    seed=seeds,
    chosen=maps,
)
def test_embedding_sums_move_by_at_most_one_group(
    people: list[list[tuple[list[int], int]]],
    rows: int,
    scale: float,
    seed: int,
    chosen: dict[str, Any],
) -> None:
    spec = MeanEmbeddingSpec(
        **chosen,
        feature_seed=seed,
        noise_multiplier=NOISE_MULTIPLIER,
        count_scale=scale,
    )
    mechanism = MeanEmbedding(spec, SPACE)
    base = mechanism.setup(grouped(people).batches(rows), NoNoise())
    for removed in range(len(people)):
        neighbour = grouped(people[:removed] + people[removed + 1 :])
        other = mechanism.setup(neighbour.batches(rows + 1), NoNoise())
        assert NOISE_MULTIPLIER * math.sqrt(squared_shift(base, other)) <= LATTICE_STD


def test_a_group_counted_as_its_records_would_be_noticed() -> None:
    """The bound that the test above checks is exceeded when each record is a unit of its own."""
    spec = MeanEmbeddingSpec(
        num_features=8,
        bandwidths=[0.5],
        feature_seed=1,
        noise_multiplier=NOISE_MULTIPLIER,
        count_scale=0.5,
    )
    mechanism = MeanEmbedding(spec, SPACE)
    person = [([1, 2, 3, 0], 0)] * 3
    other: list[tuple[list[int], int]] = [([3, 3, 0, 0], 1)]
    shift = squared_shift(
        mechanism.setup([batch([*other, *person])], NoNoise()),
        mechanism.setup([batch(other)], NoNoise()),
    )
    assert NOISE_MULTIPLIER * math.sqrt(shift) > 2.9 * LATTICE_STD


@settings(deadline=None, max_examples=60)
@given(
    num_records=st.integers(1, 70),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    channels=st.integers(1, 3),
    chosen=maps,
    data=st.data(),
)
def test_a_feature_row_does_not_know_its_companions(
    num_records: int,
    height: int,
    width: int,
    channels: int,
    chosen: dict[str, Any],
    data: st.DataObject,
) -> None:
    space = ImageSpace(channels=channels, height=height, width=width, max_level=255, num_classes=2)
    spec = MeanEmbeddingSpec(
        **chosen,
        feature_seed=data.draw(seeds),
        noise_multiplier=NOISE_MULTIPLIER,
        count_scale=0.3,
    )
    mechanism = MeanEmbedding(spec, space)
    generator = torch.Generator().manual_seed(data.draw(seeds))
    levels = torch.randint(0, 256, (num_records, space.dimension), generator=generator)
    levels = levels.to(torch.uint8)
    rows = mechanism._record_rows(levels)
    order = torch.randperm(num_records, generator=generator)
    kept = order[: data.draw(st.integers(1, num_records))]
    assert torch.equal(mechanism._record_rows(levels[kept]), rows[kept])
    lone = data.draw(st.integers(0, num_records - 1))
    assert torch.equal(mechanism._record_rows(levels[lone : lone + 1])[0], rows[lone])
    assert float(rows.norm(dim=1).max()) <= 1


@settings(deadline=None, max_examples=60)
@given(
    records=records_strategy.filter(bool),
    clip_norm=st.floats(1e-2, 10),
    label_scale=st.floats(0, 10),
    origin=st.sampled_from(["black", "grey", "white"]),
    per_unit=st.integers(1, 3),
)
def test_a_record_moves_the_projections_by_its_own_projection(
    records: list[tuple[list[int], int]],
    clip_norm: float,
    label_scale: float,
    origin: str,
    per_unit: int,
) -> None:
    """With its slot empty in the neighbour, nothing else moves, and it no further than charged."""
    spec = DpSwdSpec(
        sampling_rate=0.5,
        capacity=CAPACITY * per_unit,
        num_samples=2,
        num_projections=7,
        clip_norm=clip_norm,
        label_scale=label_scale,
        origin=origin,  # type: ignore[arg-type]
        noise_multiplier=NOISE_MULTIPLIER,
        max_size=20,
        max_records_per_unit=per_unit,
    )
    mechanism = DpSwd(spec, SPACE)
    directions = draw_directions(6, 7, OsEntropy())
    sent = Samples(images_ND=torch.zeros(2, 4), labels_N=torch.tensor([0, 1]))
    full = batch(records).unseal()
    base = integers(mechanism.project(sent, Private(full), directions, NoNoise()))
    for removed in range(len(records)):
        rest = torch.arange(CAPACITY) != removed
        without = RecordBatch(
            levels_MD=full.levels_MD * rest.unsqueeze(1),
            labels_M=full.labels_M * rest,
            mask_M=full.mask_M & rest,
            units_M=torch.where(rest, full.units_M, -1),
        )
        other = integers(mechanism.project(sent, Private(without), directions, NoNoise()))
        moved = (base - other).double() / LATTICE_STD
        assert moved[rest].abs().sum() == 0
        row = mechanism.record_rows(sent)(full.levels_MD[[removed]], full.labels_M[[removed]]) / 3
        row = row * min(1.0, clip_norm / max(float(row.norm()), 1e-300))
        allowed = (row @ directions.unit_columns) / (
            clip_norm * NOISE_MULTIPLIER * math.sqrt(per_unit)
        )
        assert bool((moved[removed].abs() <= allowed.abs()[0] * (1 - 1e-6)).all())
        if removed < CAPACITY // per_unit:  # one of the units that always fit
            assert bool((moved[removed].abs() >= allowed.abs()[0] * (1 - 1e-3) - 2e-5).all())
