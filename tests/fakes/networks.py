"""Public networks of drawn weights that a test offers, added as a steward adds one."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save

from curator.administration.add_network import NewNetwork, add_network
from curator.divergences.architectures import PublicArchitecture
from curator.divergences.feature_nets import FeatureShape
from curator.mechanisms.feature_statistics import FeatureStatistics, FeatureStatisticsSpec
from curator.mechanisms.public_networks import DECLARED, choose_networks
from curator.privacy.batches import ImageSpace

SPACE: Final = ImageSpace(channels=1, height=4, width=4, max_level=16, num_classes=3)
TINY: Final = "tiny"
NUM_FEATURES: Final = 5


def weights_of(shape: FeatureShape, scale: float = 0.3, seed: int = 0) -> bytes:
    """Return drawn weights; those of wide layers are smaller, so that nothing saturates."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, size in shape.sizes.items():
        drawn = torch.rand(size, generator=generator) * 2 - 1
        made[name] = drawn * (scale if len(size) == 1 else 6 * scale * math.prod(size[1:]) ** -0.5)
    return save(made)


def tiny_shape(space: ImageSpace = SPACE) -> FeatureShape:
    return FeatureShape(
        architecture="lenet-features",
        channels=space.channels,
        height=space.height,
        width=space.width,
        max_level=space.max_level,
        num_features=NUM_FEATURES,
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


PARAMETERS: Final[dict[str, Any]] = {
    "network": TINY,
    "network_sha256": digest(weights_of(tiny_shape())),
    "network_declared": DECLARED,
    "architecture": "lenet-features",
    "num_features": NUM_FEATURES,
    "stages": [],
    "cells": 1,
    "enlarged": 1,
    "count_scale": 0.3,
    "noise_multiplier": 1.1,
    "refinements": [1.2],
    "radius_scale": 1.0,
    "moments": "together",
    "moment_width": 4,
    "moment_noise_multiplier": 1.3,
    "moment_seed": 1,
    "max_size": 10,
    "max_records_per_unit": 1,
}


def offer(
    folder: Path,
    data: bytes | None = None,
    name: str = TINY,
    architecture: PublicArchitecture = "lenet-features",
) -> str:
    """Add a network to a folder and choose the folder for this process.

    Returns:
        The digest of its file.
    """
    source = folder / f"{name}.source"
    source.write_bytes(weights_of(tiny_shape()) if data is None else data)
    new = NewNetwork(name=name, architecture=architecture, origin="drawn for a test")
    card, _ = add_network(folder, new, source)
    choose_networks(folder)
    return card.sha256


def mechanism(space: ImageSpace = SPACE, **changes: Any) -> FeatureStatistics:
    return FeatureStatistics(FeatureStatisticsSpec(**(PARAMETERS | changes)), space)
