"""Steps of the mechanisms that ask every record for one choice, and small sets of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from curator.mechanisms.record_choices import ChoiceMechanism
from curator.mechanisms.score import Score, ScoreSpec
from curator.mechanisms.votes import Votes, VotesSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from tests.fakes.noise import NoNoise

SPACE = ImageSpace(channels=1, height=4, width=5, max_level=16, num_classes=3)
BOUNDS: dict[str, Any] = {"noise_multiplier": 1.1, "max_size": 30, "max_records_per_unit": 1}
SCORE: dict[str, Any] = BOUNDS | {"architecture": "mlp-features", "counts": "by-class"}
VOTES: dict[str, Any] = BOUNDS | {
    "num_candidates": 7,
    "images_per_candidate": 1,
    "features": "pixels",
}


def score(**changes: Any) -> Score:
    return Score(ScoreSpec(**(SCORE | changes)), SPACE)


def votes(**changes: Any) -> Votes:
    return Votes(VotesSpec(**(VOTES | changes)), SPACE)


def network(subject: Score, scale: float = 0.3, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (torch.rand(size, generator=generator) * 2 - 1) * scale
        for name, size in subject.shape.sizes.items()
    }


def asking(subject: ChoiceMechanism, seed: int = 0, **changes: Any) -> Samples:
    """Return what a step sends."""
    if isinstance(subject, Votes):
        generator = torch.Generator().manual_seed(seed)
        size, each = (subject.num_options, SPACE.dimension), subject.spec.images_per_candidate
        rows = torch.rand((size[0] * each, size[1]), generator=generator) * 2 - 1
        labels = (torch.arange(size[0]) % 3).repeat_interleave(each)
        return Samples(**({"images_ND": rows, "labels_N": labels} | changes))
    assert isinstance(subject, Score)
    fields: dict[str, Any] = {
        "images_ND": torch.zeros(subject.num_options, 1),
        "labels_N": torch.zeros(subject.num_options, dtype=torch.int64),
        "weights": save(network(subject, seed=seed)),
    }
    return Samples(**(fields | changes))


def agreeing(subject: ChoiceMechanism) -> Samples:
    """Return a step for which every record of the first class chooses the same option."""
    if isinstance(subject, Votes):
        one = torch.zeros(subject.rows_per_step or 0, SPACE.dimension)
        return asking(subject, images_ND=one)
    assert isinstance(subject, Score)
    sizes = subject.shape.sizes
    return asking(subject, weights=save({name: torch.zeros(of) for name, of in sizes.items()}))


def batch(units: list[int], num_rows: int = 8, seed: int = 1) -> RecordBatch:
    """Return rows of these units, then padding."""
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 17, (num_rows, SPACE.dimension), generator=generator)
    labels = torch.randint(0, 3, (num_rows,), generator=generator)
    mask = torch.arange(num_rows) < len(units)
    return RecordBatch(
        levels_MD=(levels * mask.unsqueeze(1)).to(torch.uint8),
        labels_M=labels * mask,
        mask_M=mask,
        units_M=torch.tensor(units + [-1] * (num_rows - len(units))),
    )


def without(inside: RecordBatch, unit: int) -> RecordBatch:
    """Return the batch as it would be if a unit were not there."""
    rest = inside.units_M != unit
    return replace(
        inside,
        levels_MD=inside.levels_MD * rest.unsqueeze(1),
        labels_M=inside.labels_M * rest,
        mask_M=inside.mask_M & rest,
        units_M=torch.where(rest, inside.units_M, -1),
    )


def counted(subject: ChoiceMechanism, asked: Samples, *inside: RecordBatch) -> Tensor:
    """Return the counts without noise, in records; they must be whole."""
    state = subject.start(Private(one) for one in inside)
    _, release = subject.gradient(state, asked, NoNoise())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    assert not (block.integers % subject.bounds.scale).any()
    return block.integers // subject.bounds.scale
