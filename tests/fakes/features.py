"""Steps of a mechanism on features."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from curator.mechanisms.dp_swd_features import DpSwdFeatures, DpSwdFeaturesSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private

SPACE = ImageSpace(channels=1, height=4, width=5, max_level=16, num_classes=3)
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.1,
    "capacity": 6,
    "num_samples": 4,
    "num_projections": 5,
    "architecture": "lenet-features",
    "num_features": 7,
    "clip_norm": 0.4,
    "noise_multiplier": 1.1,
    "max_size": 30,
    "max_records_per_unit": 1,
}


def mechanism(**changes: Any) -> DpSwdFeatures:
    return DpSwdFeatures(DpSwdFeaturesSpec(**(PARAMETERS | changes)), SPACE)


def weights(subject: DpSwdFeatures, scale: float = 0.3, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (torch.rand(size, generator=generator) * 2 - 1) * scale
        for name, size in subject.shape.sizes.items()
    }


def samples(subject: DpSwdFeatures, **changes: Any) -> Samples:
    size = (subject.spec.num_samples, subject.spec.num_features)
    rows = torch.rand(size, generator=torch.Generator().manual_seed(1)) * 2 - 1
    fields: dict[str, Any] = {
        "images_ND": rows,
        "labels_N": torch.zeros(size[0], dtype=torch.int64),
        "weights": save(weights(subject)),
    }
    return Samples(**(fields | changes))


def batch(num_records: int, capacity: int = 6, seed: int = 1) -> RecordBatch:
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 17, (capacity, SPACE.dimension), generator=generator)
    labels = torch.randint(0, 3, (capacity,), generator=generator)
    mask = torch.arange(capacity) < num_records
    return RecordBatch(
        levels_MD=(levels * mask.unsqueeze(1)).to(torch.uint8),
        labels_M=labels * mask,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(capacity), -1),
    )


def records(num_records: int, **options: Any) -> Private[RecordBatch]:
    return Private(batch(num_records, **options))
