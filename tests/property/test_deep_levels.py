"""Images of 12 and 16 bits: brute force over neighbours, and no level is lost on the way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from curator.errors import MalformedRequest
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.mechanisms.votes import Votes, VotesSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.sanitizer.directions import draw_directions
from curator.sanitizer.lattice import LATTICE_STD
from tests.fakes.noise import NoNoise, SeededNoise
from tests.property.test_sensitivity import squared_shift

CAPACITY, SIDE, Z = 5, 28, 1.1
DEPTHS = pytest.mark.parametrize("white", [4095, 65_535])
PIXELS: dict[str, Any] = {"num_features": 8, "bandwidths": [0.5, 2.0]}
WAVES: dict[str, Any] = {"num_scattering_features": 12, "scattering_bandwidths": [0.2, 0.4, 0.8]}


def space(white: int) -> ImageSpace:
    return ImageSpace(channels=1, height=SIDE, width=SIDE, max_level=white, num_classes=2)


def levels(white: int, seed: int = 1) -> Tensor:
    """Return rows with all that is awkward: black, white, and one level above another row."""
    generator = torch.Generator().manual_seed(seed)
    size = (CAPACITY, SIDE * SIDE)
    made = torch.randint(0, white + 1, size, generator=generator, dtype=torch.int32)
    made[0], made[1] = white, 0
    made[3] = made[2].clamp(max=white - 1) + 1
    return made


def batch(rows_MD: Tensor, mask: Tensor | None = None) -> RecordBatch:
    mask = torch.ones(CAPACITY, dtype=torch.bool) if mask is None else mask
    return RecordBatch(
        levels_MD=rows_MD * mask.unsqueeze(1),
        labels_M=torch.arange(CAPACITY) % 2 * mask,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(CAPACITY), -1),
    )


def neighbours(whole: RecordBatch) -> list[RecordBatch]:
    """Return the batch without each of its records."""
    return [batch(whole.levels_MD, torch.arange(CAPACITY) != left) for left in range(CAPACITY)]


def samples(num_rows: int) -> Samples:
    images = torch.rand(num_rows, SIDE * SIDE, generator=torch.Generator().manual_seed(3)) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 2)


def sinkhorn(white: int, schedule: str = "published", **changes: Any) -> DpSinkhorn:
    parameters: dict[str, Any] = {
        "sampling_rate": 0.5,
        "capacity": CAPACITY,
        "num_samples": 3,
        "num_debias": 1,
        "clip_norm": 0.5,
        "noise_multiplier": Z,
        "reg": 0.05,
        "l1_weight": 1.0,
        "label_scale": 15.0,
    }
    spec = DpSinkhornSpec.model_validate(parameters | {"schedule": schedule} | changes)
    return DpSinkhorn(spec, space(white))


def swd(white: int, side: int = SIDE, **changes: Any) -> DpSwd:
    parameters: dict[str, Any] = {
        "sampling_rate": 0.5,
        "capacity": CAPACITY,
        "num_samples": 3,
        "num_projections": 6,
        "clip_norm": 5.0,
        "label_scale": 1.5,
        "origin": "black",
        "noise_multiplier": Z,
        "max_size": 5,
        "max_records_per_unit": 1,
    }
    return DpSwd(
        DpSwdSpec(**(parameters | changes)), replace(space(white), height=side, width=side)
    )


def embedding(white: int, **chosen: Any) -> MeanEmbedding:
    spec = MeanEmbeddingSpec(**chosen, feature_seed=1, noise_multiplier=Z, count_scale=0.5)
    return MeanEmbedding(spec, space(white))


@DEPTHS
def test_a_sinkhorn_gradient_moves_by_at_most_two_clip_norms(white: int) -> None:
    subject, whole = sinkhorn(white), batch(levels(white))
    base = subject.gradient(samples(4), Private(whole), NoNoise())
    for other in neighbours(whole):
        moved = subject.gradient(samples(4), Private(other), NoNoise())
        assert Z * math.sqrt(squared_shift(base, moved)) <= LATTICE_STD


@pytest.mark.parametrize("schedule", ["published", "converged"])
@DEPTHS
def test_a_sinkhorn_gradient_tells_one_level_of_one_pixel(white: int, schedule: str) -> None:
    """Before it is noised: at a temperature at which all records have the same weight."""
    subject, rows_MD = sinkhorn(white, schedule, reg=1e6, l1_weight=0.0), levels(white)
    found = []
    for level in (white // 3, white // 3 + 1):
        rows_MD[4, 5] = level
        with subject._step().begun(samples(4)) as step:
            found.append(step.private_rows(batch(rows_MD)).double())
    apart = (found[0] - found[1]).abs()
    assert apart.max(dim=1).indices.tolist() == [5] * 3
    moved = apart[:, 5] * white / 2  # of a pixel's step, by the weight of one record among five
    assert float(moved.min()) > 0.5 * float(moved.max()) > 0
    assert float(moved.max() / found[0][:, 5].abs().max()) > 0.05
    assert float(apart[:, :5].max()) < 0.05 * float(apart[:, 5].min())


@DEPTHS
@pytest.mark.parametrize("origin", ["black", "grey", "white"])
def test_a_record_moves_projections_by_its_own_alone(white: int, origin: str) -> None:
    subject, whole, noise = swd(white, origin=origin), batch(levels(white)), SeededNoise(2)
    directions = draw_directions(subject.width, 6, noise)
    asked = samples(3)

    def projected(of: RecordBatch) -> Tensor:
        released = subject.project(asked, Private(of), directions, NoNoise())
        return released.blocks[0].integers  # type: ignore[union-attr]

    base, rows = projected(whole), subject.record_rows(asked)(whole.levels_MD, whole.labels_M)
    limit = subject.bounds.clip_norm
    clipped = rows * (limit / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    wanted = clipped @ directions.unit_columns / subject.bounds.grid(subject.width)
    assert float((base - wanted).abs().max()) <= 1 + 1e-6
    assert base.abs().sum(dim=1).count_nonzero() >= CAPACITY - 1  # a black row is zero
    for left, other in enumerate(neighbours(whole)):
        shift = base - projected(other)
        assert not shift[torch.arange(CAPACITY) != left].any()


@DEPTHS
@pytest.mark.parametrize(
    "chosen",
    [
        PIXELS,
        {"feature_map": "scattering-rff", "num_features": 0, "bandwidths": []} | WAVES,
        {"feature_map": "mix", "scattering_share": 0.7} | PIXELS | WAVES,
        {"feature_map": "mix-sorf", "scattering_share": 0.7} | PIXELS | WAVES,
    ],
    ids=["rff", "scattering-rff", "mix", "mix-sorf"],
)
def test_embedding_sums_move_by_one_row_whoever_its_companions_are(
    white: int, chosen: dict[str, Any]
) -> None:
    subject, whole = embedding(white, **chosen), batch(levels(white))
    base = subject.setup([Private(whole)], NoNoise()).blocks[0]
    rows = subject._record_rows(whole.levels_MD)
    for left, other in enumerate(neighbours(whole)):
        moved = subject.setup([Private(other)], NoNoise()).blocks[0]
        shift = base.integers - moved.integers  # type: ignore[union-attr]
        assert 0.99 < Z * math.sqrt(int(shift.square().sum())) / LATTICE_STD <= 1
        alone = subject._record_rows(whole.levels_MD[left : left + 1])
        assert torch.equal(alone[0], rows[left])
    assert not torch.equal(rows[2], rows[3])  # one level apart everywhere


@pytest.mark.parametrize(("feature_map", "side"), [("rff", 1 << 10), ("sorf", 1 << 9)])
def test_sums_of_the_largest_images_at_the_deepest_levels_are_exact(
    feature_map: Literal["rff", "sorf"], side: int
) -> None:
    """What frequencies are told is above every centred level; so many pixels are allowed."""
    from curator.mechanisms import mean_embedding as module

    assert module._LARGEST_LEVEL > 65_535
    largest = replace(space(65_535), height=side, width=side)
    spec = MeanEmbeddingSpec(
        feature_map=feature_map,
        num_features=2,
        bandwidths=[1.0],
        feature_seed=1,
        noise_multiplier=Z,
        count_scale=0.5,
    )
    assert module.feature_map(spec, largest).num_features == 2


def test_a_long_row_is_projected_in_two_exact_parts() -> None:
    """In Python's integers; in one part such a row would count as zero."""
    subject = swd(65_535, clip_norm=1e5)  # nothing is clipped
    assert subject.bounds.is_long
    assert not swd(4095).bounds.is_long
    assert not swd(255, side=200).bounds.is_long
    whole, directions = batch(levels(65_535)), draw_directions(subject.width, 3, SeededNoise(5))
    rows = subject.record_rows(samples(3))(whole.levels_MD, whole.labels_M)
    released = subject.project(samples(3), Private(whole), directions, NoNoise())
    found = released.blocks[0].integers.tolist()  # type: ignore[union-attr]
    columns = directions.integers_DK.to(torch.int64).T.tolist()
    for row, values in zip(rows.to(torch.int64).tolist(), found, strict=True):
        for column, value in zip(columns, values, strict=True):
            product = sum(w * n for w, n in zip(row, column, strict=True))
            length = math.isqrt(sum(n * n for n in column) << 60) / 2.0**30
            exact = product / length / subject.bounds.grid(subject.width)
            assert abs(value) <= abs(exact)
            assert abs(value - exact) <= 1
    subject.bounds = replace(subject.bounds, is_long=False)
    short = subject.project(samples(3), Private(whole), directions, NoNoise()).blocks[0]
    assert not short.integers[0].any()  # type: ignore[union-attr]


def test_rows_of_every_image_that_is_accepted_are_exact_in_two_parts() -> None:
    from curator.mechanisms import dp_swd as module
    from curator.sanitizer import projected

    most = module._MAX_DIMENSION
    rest, high = projected._CUT // 2, -(-2 * 65_535 // projected._CUT)
    label = math.isqrt(projected.LONGEST_SQUARE) // projected._CUT + 1
    assert most * max(rest, high) + label <= projected.longest_row()
    assert most * (2 * 65_535) ** 2 <= projected.LONGEST_SQUARE
    # whatever the order, so many roundings of a sum of 2^53 or more leave it above the bound
    assert projected.LONGEST_SQUARE < 2**53 * (1 - 2.0**-53) ** (1 << 20)
    assert swd(65_535, side=499, label_scale=500.0, num_projections=1).bounds.is_long
    with pytest.raises(MalformedRequest, match="label_scale: too large"):
        swd(65_535, side=499, label_scale=900.0, num_projections=1)


def test_votes_of_deep_levels_are_refused_where_distances_were_inexact() -> None:
    parameters: dict[str, Any] = {
        "noise_multiplier": Z,
        "max_size": 9,
        "max_records_per_unit": 1,
        "num_candidates": 2,
        "features": "pixels",
    }
    Votes(VotesSpec(**parameters, images_per_candidate=29), space(65_535))
    with pytest.raises(MalformedRequest, match="images_per_candidate: too many for exact"):
        Votes(VotesSpec(**parameters, images_per_candidate=30), space(65_535))
    Votes(VotesSpec(**parameters, images_per_candidate=64), space(4095))
