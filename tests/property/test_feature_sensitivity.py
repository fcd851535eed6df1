"""Brute force over neighbouring batches, for weights that an adversary chose."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

from curator.divergences.feature_nets import LARGEST_WEIGHT, ROW_RADIUS, feature_rows
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.directions import draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD
from tests.fakes.features import SPACE, mechanism, samples
from tests.fakes.noise import NoNoise

Z = 1.1
CAPACITY = 6

pixels = st.lists(
    st.lists(st.integers(0, 16), min_size=SPACE.dimension, max_size=SPACE.dimension),
    min_size=1,
    max_size=5,
)


def integers(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def batch(levels: list[list[int]], per_unit: int) -> RecordBatch:
    count = len(levels)
    padded = levels + [[0] * SPACE.dimension] * (CAPACITY * per_unit - count)
    return RecordBatch(
        levels_MD=torch.tensor(padded, dtype=torch.uint8),
        labels_M=torch.zeros(len(padded), dtype=torch.int64),
        mask_M=torch.arange(len(padded)) < count,
        units_M=torch.tensor([i if i < count else -1 for i in range(len(padded))]),
    )


def adversarial(subject: DpSwdFeatures, seed: int, scale: float) -> dict[str, Tensor]:
    """Weights of any size, one in four of them at the bound."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, size in subject.shape.sizes.items():
        values = (torch.rand(size, generator=generator) * 2 - 1) * scale
        extreme = torch.rand(size, generator=generator) < 0.25
        made[name] = torch.where(extreme, LARGEST_WEIGHT * values.sign(), values)
    return made


@settings(deadline=None, max_examples=60)
@given(
    levels=pixels,
    architecture=st.sampled_from(["lenet-features", "mlp-features"]),
    scale=st.sampled_from([1e-4, 0.1, LARGEST_WEIGHT]),
    clip_norm=st.floats(1e-3, 1e3),
    per_unit=st.integers(1, 3),
    seed=st.integers(0, 2**31 - 1),
)
def test_a_record_moves_the_projections_by_those_of_its_clipped_features(
    levels: list[list[int]],
    architecture: Any,
    scale: float,
    clip_norm: float,
    per_unit: int,
    seed: int,
) -> None:
    """With its slot empty in the neighbour, nothing else moves, and it no further than charged."""
    subject = mechanism(
        architecture=architecture,
        clip_norm=clip_norm,
        capacity=CAPACITY * per_unit,
        max_records_per_unit=per_unit,
    )
    sent = adversarial(subject, seed, scale)
    asked = samples(subject, weights=save(sent))
    directions = draw_directions(7, 5, OsEntropy())
    full = batch(levels, per_unit)
    base = integers(subject.project(asked, Private(full), directions, NoNoise()))
    rows = feature_rows(subject.shape, sent, full.levels_MD, clip_norm)
    for removed in range(len(levels)):
        rest = torch.arange(CAPACITY * per_unit) != removed
        without = RecordBatch(
            levels_MD=full.levels_MD * rest.unsqueeze(1),
            labels_M=full.labels_M,
            mask_M=full.mask_M & rest,
            units_M=torch.where(rest, full.units_M, -1),
        )
        other = integers(subject.project(asked, Private(without), directions, NoNoise()))
        moved = (base - other).double() / LATTICE_STD
        assert moved[rest].abs().sum() == 0
        row = rows[removed] * min(1.0, ROW_RADIUS / max(float(rows[removed].norm()), 1e-300))
        allowed = (row @ directions.unit_columns).abs() / (ROW_RADIUS * Z * math.sqrt(per_unit))
        assert bool((moved[removed].abs() <= allowed * (1 - 1e-6)).all())
        if removed < CAPACITY:  # one of the units that always fit
            assert bool((moved[removed].abs() >= allowed * (1 - 1e-3) - 2e-5).all())


def test_features_that_were_not_clipped_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound that the test above checks is exceeded without the clip."""
    monkeypatch.setattr(
        "curator.sanitizer.projected._limit", lambda rows, _: torch.ones(len(rows)).double()
    )
    subject = mechanism(clip_norm=1e-2)
    asked = samples(subject, weights=save(adversarial(subject, 1, 0.5)))
    directions = draw_directions(7, 5, OsEntropy())
    full = integers(subject.project(asked, Private(batch([[16] * 20], 1)), directions, NoNoise()))
    longest = directions.unit_columns.norm() / Z
    assert float(full.double().norm() / LATTICE_STD) > 2 * float(longest)
