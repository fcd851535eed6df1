"""Brute force over neighbouring data sets for both releases of DP-MERF-AE.

For the sums of the training, a sample of one world is laid beside that of the other, slot by slot,
as in the proof. For the embedding the encoder is held fixed: in the proof it was released before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.autoencoder import (
    AutoencoderShape,
    example_slopes,
    initial_autoencoder,
    on_grid,
)
from curator.mechanisms.dp_merf_ae import DpMerfAe, DpMerfAeSpec
from curator.privacy.batches import ImageSpace, RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.example_sum import ExampleBounds, release_example_sum
from curator.sanitizer.lattice import LATTICE_STD, LATTICE_VARIANCE
from curator.sanitizer.summed import release_class_sums
from tests.fakes.noise import NoNoise
from tests.property.test_dp_cgan_sensitivity import FixedOrder, laid_out, moved_by, unit_strategy

Z, SLOTS, PIXELS, CLASSES = 1.1, 12, 4, 2
SHAPE = AutoencoderShape(dimension=PIXELS, hidden_width=3, code_width=2)
Units = list[list[tuple[list[int], int]]]
scales = st.sampled_from([0.0, 1.0, 1e3, 1e25, float("nan")])


def summed(units: Units, bounds: ExampleBounds, vector: Tensor, seed: int) -> Tensor:
    def slopes(levels_MP: Tensor, labels_M: Tensor) -> Iterator[list[Tensor]]:
        pixels = levels_MP.float() / 127.5 - 1
        for some in (slice(0, 7), slice(7, SLOTS)):
            yield example_slopes(SHAPE, vector, pixels[some])

    release = release_example_sum(
        laid_out(units),
        slopes,
        num_classes=CLASSES,
        num_values=SHAPE.num_parameters,
        bounds=bounds,
        noise=FixedOrder(seed),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


@settings(deadline=None, max_examples=60)
@given(
    units=st.lists(unit_strategy, max_size=5),
    extra=unit_strategy,
    clip=st.sampled_from([1e-3, 0.1, 100.0]),
    scale=scales,
    seed=st.integers(0, 2**31),
)
def test_one_unit_moves_a_sum_of_the_training_by_its_bound(
    units: Units, extra: list[tuple[list[int], int]], clip: float, scale: float, seed: int
) -> None:
    most = 3
    vector = initial_autoencoder(SHAPE, 1) * scale
    bounds = ExampleBounds(clip_norm=clip, records_per_unit=most, noise_multiplier=Z)
    places = SLOTS // most
    base = summed(units[:places], bounds, vector, seed)
    without = summed(units[: places - 1], bounds, vector, seed)
    with_it = summed([*units[: places - 1], extra], bounds, vector, seed)
    limit = LATTICE_VARIANCE / Z**2
    assert moved_by(with_it, without) <= limit  # there is a place left
    assert moved_by(base, with_it) <= 4 * limit  # there is none, and one is replaced


def test_that_bound_is_nearly_met() -> None:
    bounds = ExampleBounds(clip_norm=1e-3, records_per_unit=1, noise_multiplier=Z)
    lone = summed([[([255, 0, 255, 9], 1)]], bounds, initial_autoencoder(SHAPE, 1), 3)
    assert 0.99 < moved_by(lone, torch.zeros_like(lone)) * Z**2 / LATTICE_VARIANCE <= 1


def mechanism(seed: int = 1, count_scale: float = 0.3) -> DpMerfAe:
    spec = DpMerfAeSpec(
        sampling_rate=0.5,
        capacity=SLOTS,
        expected_batch_size=6.0,
        max_size=40,
        max_records_per_unit=3,
        autoencoder="mlp",
        hidden_width=3,
        code_width=2,
        autoencoder_seed=1,
        clip_norm=1.0,
        training_noise_multiplier=Z,
        training_steps=1,
        training_learning_rate=0.1,
        averaging=0.0,
        num_features=8,
        bandwidths=[0.5],
        feature_seed=seed,
        noise_multiplier=Z,
        count_scale=count_scale,
    )
    space = ImageSpace(channels=1, height=2, width=2, max_level=255, num_classes=CLASSES)
    return DpMerfAe(spec, space)


def weights(seed: int, scale: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    start = initial_autoencoder(SHAPE, 2)
    return on_grid((start + torch.randn(start.shape, generator=generator)) * scale)


def kept(units: Units) -> PrivateRecords:
    """Return records side by side, each unit a group, every label a class."""
    rows = [
        (values, label % CLASSES, owner)
        for owner, unit in enumerate(units)
        for values, label in unit
    ]
    levels = np.array([row[0] for row in rows], dtype=np.uint8).reshape(-1, 1, 2, 2)
    return PrivateRecords(
        LabelledImages(
            levels=levels,
            labels=np.array([row[1] for row in rows], dtype=np.int64),
            groups=np.array([row[2] for row in rows], dtype=np.int64),
            max_per_group=5,
        )
    )


def embedded(subject: DpMerfAe, vector: Tensor, batches: Iterator[Any]) -> Tensor:
    """Return the integers of the embedding under an encoder that was released before."""
    with pytest.MonkeyPatch.context() as patch:
        from curator.mechanisms import dp_merf_ae

        seen: list[Any] = []

        def noting(*given: Any, **named: Any) -> Any:
            release = release_class_sums(*given, **named)
            seen.append(release.blocks[0])
            return release

        patch.setattr(dp_merf_ae, "on_grid", lambda _: vector)
        patch.setattr(dp_merf_ae, "release_class_sums", noting)
        empty = laid_out([])
        subject.setup((one for part in ([empty], batches) for one in part), NoNoise())
    (block,) = seen
    integers: Tensor = block.integers
    return integers


@settings(deadline=None, max_examples=50)
@given(
    units=st.lists(unit_strategy, min_size=1, max_size=4),
    rows=st.integers(3, 12),
    count_scale=st.floats(1e-3, 10),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 1e3]),
)
def test_one_unit_moves_the_embedding_by_at_most_one(
    units: Units, rows: int, count_scale: float, seed: int, scale: float
) -> None:
    subject, vector = mechanism(seed, count_scale), weights(seed, scale)
    base = embedded(subject, vector, kept(units).batches(rows))
    for removed in range(len(units)):
        others = units[:removed] + units[removed + 1 :]
        other = embedded(subject, vector, kept(others).batches(rows + 1))
        assert Z * math.sqrt(moved_by(base.flatten(), other.flatten())) <= LATTICE_STD


def test_one_record_moves_it_by_nearly_one() -> None:
    subject, vector = mechanism(), weights(1, 1.0)
    units: Units = [[([1, 200, 3, 40], 0)], [([90, 1, 7, 255], 1)]]
    base = embedded(subject, vector, kept(units).batches(8))
    other = embedded(subject, vector, kept(units[:1]).batches(8))
    assert Z * math.sqrt(moved_by(base.flatten(), other.flatten())) > 0.99 * LATTICE_STD


@settings(deadline=None, max_examples=50)
@given(
    num_records=st.integers(1, 70),
    pixels=st.integers(1, 81),
    hidden=st.integers(1, 40),
    code=st.integers(1, 20),
    scale=st.sampled_from([0.0, 1.0, 1e3]),
    data=st.data(),
)
def test_a_row_of_codes_features_does_not_know_its_companions(
    num_records: int, pixels: int, hidden: int, code: int, scale: float, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 2**31))
    fields = mechanism(seed).spec.model_dump() | {"hidden_width": hidden, "code_width": code}
    space = ImageSpace(channels=1, height=1, width=pixels, max_level=255, num_classes=CLASSES)
    subject = DpMerfAe(DpMerfAeSpec(**fields), space)
    shape = AutoencoderShape(dimension=pixels, hidden_width=hidden, code_width=code)
    features = subject._features(on_grid(initial_autoencoder(shape, seed) * scale))
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 256, (num_records, pixels), generator=generator).to(torch.uint8)
    rows = features.record_rows(levels)
    order = torch.randperm(num_records, generator=generator)
    some = order[: data.draw(st.integers(1, num_records))]
    assert torch.equal(features.record_rows(levels[some]), rows[some])
    assert float(rows.norm(dim=1).max()) <= 1


def test_an_encoder_in_floating_point_would_be_noticed() -> None:
    """A float32 sum depends on its order, whatever order a library takes: so do an encoder's rows.

    The same pixels in another order, with the weights that go with them, are the same sums.
    """
    shape = AutoencoderShape(dimension=784, hidden_width=64, code_width=10)
    fields = mechanism().spec.model_dump() | {"hidden_width": 64, "code_width": 10}
    space = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=CLASSES)
    subject = DpMerfAe(DpMerfAeSpec(**fields), space)
    features = subject._features(on_grid(initial_autoencoder(shape, 1)))
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 256, (70, 784), generator=generator).to(torch.uint8)
    order = torch.randperm(784, generator=generator)
    weights = dict(features.encoder)
    weights["encoder.hidden.weight"] = weights["encoder.hidden.weight"][:, order]
    other = replace(features, encoder=weights)
    images = levels / 127.5 - 1
    assert not torch.equal(other.rows(images[:, order]), features.rows(images))
    assert torch.equal(other.record_rows(levels[:, order]), features.record_rows(levels))


def test_the_sample_of_an_update_is_laid_out_as_the_curator_s() -> None:
    batch = laid_out([[([1, 2, 3, 4], 1)]])
    assert isinstance(batch, Private)
    assert isinstance(batch.unseal(), RecordBatch)
