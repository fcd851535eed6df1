"""Steps of the linear teacher, and records in groups."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from curator.mechanisms.linear_teacher import LinearTeacher, LinearTeacherSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples

SPACE = ImageSpace(channels=1, height=4, width=5, max_level=16, num_classes=3)
PARAMETERS: dict[str, Any] = {
    "asks": "gradient",
    "features": "lenet-features",
    "num_features": 7,
    "bias": 0.5,
    "clip_norm": 0.4,
    "noise_multiplier": 1.1,
    "max_size": 30,
    "max_records_per_unit": 1,
}


def mechanism(**changes: Any) -> LinearTeacher:
    return LinearTeacher(LinearTeacherSpec(**(PARAMETERS | changes)), SPACE)


def network(subject: LinearTeacher, scale: float = 0.3, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {} if subject.shape is None else subject.shape.sizes
    return {
        name: (torch.rand(size, generator=generator) * 2 - 1) * scale
        for name, size in sizes.items()
    }


def samples(subject: LinearTeacher, scale: float = 2.0, **changes: Any) -> Samples:
    size = (subject.rows_per_step, subject.requirements().numbers_per_row)
    scale = 0.0 if subject.spec.asks == "class-sums" else scale
    linear = (torch.rand(size, generator=torch.Generator().manual_seed(1)) * 2 - 1) * scale
    fields: dict[str, Any] = {
        "images_ND": linear,
        "labels_N": torch.zeros(size[0], dtype=torch.int64),
        "weights": save(network(subject)),
    }
    return Samples(**(fields | changes))


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
