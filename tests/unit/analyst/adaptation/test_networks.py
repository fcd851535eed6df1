"""The analyst's extractors and the curator's are one: same names, same sizes, same features."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from analyst.adaptation.networks import (
    Architecture,
    DomainClassifier,
    SourceMap,
    build_classifier,
    build_source_map,
    weight_bytes,
)
from analyst.adaptation.recipe import adaptation_from_dict
from analyst.generators.generator import ImageShape
from curator.divergences import architectures
from curator.divergences.feature_nets import (
    LARGEST_WEIGHT,
    ROW_RADIUS,
    FeatureShape,
    feature_rows,
)
from curator.mechanisms.uploaded_weights import read_weights
from tests.fakes.adaptation import table

ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
SHAPE = ImageShape(channels=2, height=9, width=6, num_classes=4)
CLIP_NORM = 2.0


def classifier(architecture: Architecture, seed: int = 0) -> DomainClassifier:
    randomness = torch.Generator().manual_seed(seed)
    return build_classifier(architecture, SHAPE, randomness, num_features=5, clip_norm=CLIP_NORM)


def curators(architecture: Architecture) -> FeatureShape:
    return FeatureShape(
        architecture=architecture,
        channels=2,
        height=9,
        width=6,
        max_level=255,
        num_features=5,
    )


def test_both_sides_know_the_same_names() -> None:
    assert get_args(Architecture) == get_args(architectures.Architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_both_sides_compute_the_same_features(architecture: Architecture) -> None:
    model, shape = classifier(architecture), curators(architecture)
    levels = torch.randint(0, 256, (30, 2 * 9 * 6), generator=torch.Generator().manual_seed(1))
    weights = read_weights(weight_bytes(model.extractor), shape.sizes, LARGEST_WEIGHT)
    rows = feature_rows(shape, weights, levels.to(torch.uint8), CLIP_NORM)
    with torch.no_grad():
        images = levels.float().reshape(30, 2, 9, 6) / 127.5 - 1
        features: Tensor = model.extractor(images)
    found = rows * (CLIP_NORM / ROW_RADIUS)
    torch.testing.assert_close(found, features.double(), rtol=0, atol=2e-3)
    assert float(features.std()) > 0.02


def test_scores_see_clipped_features_only() -> None:
    model = classifier("mlp-features")
    short = torch.tensor([[0.3, -0.1, 0.2, 0.0, 1.0]])
    torch.testing.assert_close(model.scores(short), model.head(torch.relu(short)))
    long = short * 100
    torch.testing.assert_close(model.scores(long), model.scores(3 * long))
    clipped = long * CLIP_NORM / long.norm()
    torch.testing.assert_close(model.scores(long), model.scores(clipped))


def test_weights_come_from_the_seed_alone() -> None:
    torch.rand(3)  # the global state moves on
    first, again, other = (classifier("lenet-features", seed) for seed in (0, 0, 1))
    assert weight_bytes(first.extractor) == weight_bytes(again.extractor)
    assert weight_bytes(first.extractor) != weight_bytes(other.extractor)


def test_the_head_is_never_sent() -> None:
    sizes: dict[str, Any] = curators("lenet-features").sizes
    assert read_weights(
        weight_bytes(classifier("lenet-features").extractor), sizes, LARGEST_WEIGHT
    ).keys() == {
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
        "conv2.bias",
        "features.weight",
        "features.bias",
    }


def test_a_new_map_changes_nothing_but_the_size() -> None:
    images = torch.rand((5, 2, 9, 6), generator=torch.Generator().manual_seed(2)) * 2 - 1
    source_map = mapped(images)
    torch.testing.assert_close(source_map(images), images)
    larger = images.repeat_interleave(3, dim=2).repeat_interleave(3, dim=3)
    torch.testing.assert_close(source_map(larger), images)


def test_what_a_map_brings_in_from_outside_is_black() -> None:
    images = torch.ones((1, 2, 9, 6))
    source_map = mapped(images)
    with torch.no_grad():
        source_map.affine.mul_(3)
    seen = source_map(images).detach()
    assert float(seen.min()) == -1
    assert float(seen[0, 0, 4, 2]) == 1


def test_features_of_the_source_are_twice_as_long_as_the_clip_norm() -> None:
    images = torch.rand((50, 2, 9, 6), generator=torch.Generator().manual_seed(2)) * 2 - 1
    norms = mapped(images).lens(images).norm(dim=1)
    assert float(norms.mean().detach()) == pytest.approx(2 * CLIP_NORM, rel=1e-4)


def mapped(images: Tensor) -> SourceMap:
    given = adaptation_from_dict(table(mechanism__num_features=5), origin="test").mechanism
    return build_source_map("lenet-features", SHAPE, images, mechanism=given, seed=3)
