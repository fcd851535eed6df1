"""Features of public networks: both sides compute the same, for every architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load, save_file

from analyst.embedding.networks import network_map, read_network
from analyst.errors import EmbeddingError
from analyst.generators.generator import ImageShape
from curator.divergences.architectures import PublicArchitecture
from curator.divergences.feature_maps import NetworkFeatures
from curator.divergences.feature_nets import FeatureShape
from tests.fakes.networks import digest, weights_of

SMALL = ("lenet-features", "mlp-features", "cnn-features")


def asked(architecture: str, channels: int) -> tuple[FeatureShape, dict[str, Any]]:
    chosen: dict[str, Any] = {"num_features": 6, "stages": [], "cells": 1, "enlarged": 1}
    if architecture not in SMALL:
        last = {"vgg16": 5, "efficientnet-lite0": 8}.get(architecture, 4)
        cells = {"vgg16": 2, "resnet-18": 2}.get(architecture, 1)
        chosen = {"num_features": 0, "stages": [2, last], "cells": cells, "enlarged": 2}
    shape = FeatureShape(
        architecture=architecture,  # type: ignore[arg-type]
        channels=channels,
        height=10,
        width=9,
        max_level=255,
        **(chosen | {"stages": tuple(chosen["stages"])}),
    )
    return shape, chosen | {"architecture": architecture}


@pytest.mark.parametrize(
    ("architecture", "channels"),
    [*((one, 1) for one in get_args(PublicArchitecture)), ("efficientnet-lite0", 3)],
)
def test_both_sides_compute_the_same_rows(architecture: str, channels: int) -> None:
    shape, parameters = asked(architecture, channels)
    weights = load(weights_of(shape))
    generator = torch.Generator().manual_seed(1)
    levels = torch.randint(0, 256, (3, channels * 90), generator=generator)
    features = NetworkFeatures(shape=shape, weights=weights)
    stored = features.record_rows(levels.to(torch.uint8))
    images = levels.float() / 127.5 - 1
    size = ImageShape(channels=channels, height=10, width=9, num_classes=2)
    ours = network_map(parameters, size, weights)(images.reshape(3, channels, 10, 9))
    theirs = features.rows(images)
    assert ours.shape == stored.shape == (3, features.num_features)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.double(), stored, rtol=0, atol=5e-3)
    norms = torch.linalg.vector_norm(ours, dim=1)
    torch.testing.assert_close(norms, torch.ones(3), rtol=0, atol=1e-4)
    assert float((stored[0] - stored[1]).norm()) > 0.02


def test_a_file_of_weights_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    shape, _ = asked("lenet-features", 1)
    path = tmp_path / "n.safetensors"
    path.write_bytes(weights_of(shape))
    weights, sha256 = read_network(path)
    assert sha256 == digest(path.read_bytes())
    assert {name: tuple(one.shape) for name, one in weights.items()} == shape.sizes


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", None])
def test_anything_else_is_no_network(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "n.safetensors"
    if content is None:
        save_file({"a": torch.zeros(2, dtype=torch.float64)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(EmbeddingError, match="no weights"):
        read_network(path)
    with pytest.raises(EmbeddingError, match="cannot read"):
        read_network(tmp_path / "missing")
