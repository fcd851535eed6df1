"""Feature extractors in integers: exact for any weights, and a record's row is its own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.divergences import feature_nets
from curator.divergences.exact_functions import (
    ACTIVATION_STEP,
    LARGEST_ACTIVATION,
    WEIGHT_STEP,
)
from curator.divergences.feature_nets import (
    LARGEST_PUBLIC_SUM,
    LARGEST_PUBLIC_WEIGHT,
    LARGEST_WEIGHT,
    MAX_FEATURES,
    ROW_RADIUS,
    FeatureShape,
    check_public_weights,
    feature_rows,
    image_features,
)
from curator.privacy.batches import LARGEST_LEVEL
from curator.sanitizer.directions import largest_entry

EXACT = 2**53
ARCHITECTURES = ("lenet-features", "mlp-features", "cnn-features")
TRUNKS: dict[str, tuple[int, ...]] = {
    "vgg16": (64, 128, 256, 512, 512),
    "resnet-18": (64, 128, 256, 512),
    "resnet-50": (256, 512, 1024, 2048),
    "efficientnet-lite0": (16, 24, 40, 80, 112, 192, 320, 1280),
    "dinov2-vits14": (384,) * 12,
}


def shape(architecture: Any = "lenet-features", **changes: Any) -> FeatureShape:
    sizes: dict[str, Any] = {
        "channels": 1,
        "height": 9,
        "width": 6,
        "max_level": 255,
        "num_features": 5,
    }
    return FeatureShape(architecture=architecture, **(sizes | changes))


def weights(of: FeatureShape, scale: float = 0.3, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (torch.rand(size, generator=generator) * 2 - 1) * scale
        for name, size in of.sizes.items()
    }


def levels(of: FeatureShape, count: int = 40, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = (count, of.channels * of.height * of.width)
    return torch.randint(0, of.max_level + 1, size, generator=generator).to(torch.uint8)


def test_no_sum_of_products_can_be_inexact() -> None:
    """The widest layers that are accepted, at the largest weights, pixels and activations."""
    heavy = round(LARGEST_WEIGHT / WEIGHT_STEP)
    active = round(LARGEST_ACTIVATION / ACTIVATION_STEP)
    bias = heavy * max(LARGEST_LEVEL, round(1 / ACTIVATION_STEP))
    assert feature_nets._MAX_FAN_IN * heavy * active + bias <= EXACT
    assert feature_nets._MAX_PIXELS * heavy * LARGEST_LEVEL + bias <= EXACT
    most = round(LARGEST_PUBLIC_SUM / WEIGHT_STEP)
    bias = round(LARGEST_PUBLIC_WEIGHT / WEIGHT_STEP / ACTIVATION_STEP)
    assert most * active + bias <= EXACT
    assert feature_nets._MAX_PIXELS * active <= EXACT  # averages over all places


def test_every_row_has_an_exact_projection() -> None:
    assert EXACT // largest_entry() >= MAX_FEATURES * feature_nets.LARGEST_ENTRY


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("scale", [0.3, LARGEST_WEIGHT])
def test_a_row_does_not_know_its_companions(
    architecture: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = shape(architecture)
    given, all_levels = weights(of, scale), levels(of)
    rows = feature_rows(of, given, all_levels, 2.0)
    assert rows.shape == (40, 5)
    assert bool((rows == rows.trunc()).all())
    for kept in (torch.arange(39, -1, -1), torch.tensor([7]), torch.tensor([3, 3, 30])):
        assert torch.equal(feature_rows(of, given, all_levels[kept], 2.0), rows[kept])
    monkeypatch.setattr(feature_nets, "_CHUNK_ENTRIES", 1)
    assert torch.equal(feature_rows(of, given, all_levels, 2.0), rows)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sign", [1, -1])
def test_extreme_weights_give_bounded_integers(architecture: str, sign: int) -> None:
    of = shape(architecture, max_level=1)
    given = {
        name: torch.full(size, sign * LARGEST_WEIGHT if "features" in name else LARGEST_WEIGHT)
        for name, size in of.sizes.items()
    }
    white = torch.full((2, 54), 255, dtype=torch.uint8)  # above max_level, as no store has it
    rows = feature_rows(of, given, white, 1e-6)
    assert bool((rows == sign * 8 * ROW_RADIUS).all())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_too_small_to_count_are_zero_and_never_subnormal(architecture: str) -> None:
    """No tiny number ever reaches the arithmetic, so none can slow it down."""
    of = shape(architecture)
    given = {name: torch.full(size, 1e-42) for name, size in of.sizes.items()}
    assert feature_rows(of, given, levels(of), 1e6).count_nonzero() == 0


def test_features_are_in_units_of_the_clip_norm() -> None:
    of = shape("mlp-features")
    given = weights(of, 0.1)
    once, twice = (feature_rows(of, given, levels(of), norm) / ROW_RADIUS * norm for norm in (3, 6))
    torch.testing.assert_close(once, twice, rtol=0, atol=2 * 6 / ROW_RADIUS)
    assert float(once.abs().max()) > 0.1


def test_work_is_counted() -> None:
    lenet, mlp, cnn = shape(), shape("mlp-features"), shape("cnn-features")
    assert mlp.multiplications == mlp.num_parameters == 256 * 54 + 256 + 5 * 256 + 5
    assert lenet.num_parameters == sum(math.prod(size) for size in lenet.sizes.values())
    assert lenet.multiplications == 54 * 25 * 6 + 12 * 25 * 6 * 16 + 5 * 2 * 16
    assert cnn.multiplications == 54 * 9 * 32 + 12 * 9 * 32 * 64 + 5 * 2 * 64


def trunk(architecture: Any, **changes: Any) -> FeatureShape:
    stages = {"stages": (1, len(TRUNKS[architecture]))}
    return shape(
        architecture, **({"num_features": 0, "height": 17, "width": 16} | stages | changes)
    )


def trunk_weights(of: FeatureShape) -> dict[str, Tensor]:
    """Return weights that keep the size of what they are multiplied with."""
    generator = torch.Generator().manual_seed(3)
    made = {}
    for name, size in of.sizes.items():
        drawn = torch.randn(size, generator=generator)
        made[name] = 0.1 * drawn if len(size) == 1 else drawn * math.prod(size[1:]) ** -0.5
        if "norm" in name and name.endswith("weight"):
            made[name] = made[name] + 1
    return made


@pytest.mark.parametrize("architecture", TRUNKS)
def test_a_trunk_s_row_does_not_know_its_companions(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels = TRUNKS[architecture]
    cells = 2 if max(channels) < 1000 and architecture != "dinov2-vits14" else 1
    of = trunk(architecture, cells=cells)
    given, some = trunk_weights(of), levels(of, 4)
    check_public_weights(given)
    rows = feature_rows(of, given, some, 4.0)
    assert rows.shape == (4, cells**2 * (channels[0] + channels[-1]))
    assert of.part_widths == (cells**2 * channels[0], cells**2 * channels[-1])
    assert bool((rows == rows.trunc()).all())
    assert torch.equal(feature_rows(of, given, some[[2, 0]], 4.0), rows[[2, 0]])
    monkeypatch.setattr(feature_nets, "_CHUNK_ENTRIES", 1)
    assert torch.equal(feature_rows(of, given, some, 4.0), rows)
    images = some.double() * (2 / 255) - 1
    found = image_features(of, {name: one.double() for name, one in given.items()}, images)
    expected = rows * (4.0 / ROW_RADIUS)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    assert float(expected[:, cells**2 * channels[0] :].std()) > 0.02


def test_grey_images_are_seen_three_times_and_pixels_may_be_repeated() -> None:
    of = trunk("efficientnet-lite0", height=8, width=8, enlarged=2, stages=(2,))
    given, some = trunk_weights(of), levels(of, 2)
    rows = feature_rows(of, given, some, 4.0)
    large = some.reshape(2, 1, 8, 8).repeat_interleave(2, 2).repeat_interleave(2, 3)
    coloured = trunk("efficientnet-lite0", channels=3, height=16, width=16, stages=(2,))
    three = large.expand(-1, 3, -1, -1).flatten(1)
    assert torch.equal(feature_rows(coloured, given, three, 4.0), rows)


def test_what_a_transformer_is_asked_for_is_checked() -> None:
    with pytest.raises(ValueError, match="cells must be 1"):
        trunk("dinov2-vits14", cells=2)
    with pytest.raises(ValueError, match="stages must be some of 1 to 12"):
        trunk("dinov2-vits14", stages=(13,))
    with pytest.raises(ValueError, match="at least 14x14"):
        trunk("dinov2-vits14", height=13)
    trunk("dinov2-vits14", channels=1, height=15, width=14 * 1023)  # 2,046 patches
    with pytest.raises(ValueError, match="too large"):
        trunk("dinov2-vits14", channels=1, height=15, width=14 * 1024)


def test_work_of_a_transformer_is_counted() -> None:
    of = trunk("dinov2-vits14", height=28, width=42, stages=(12,))
    tokens, patches = 7, 6
    layers = 384 * (3 * 384 + 384 + 2 * 1536)
    stem = patches * 384 * 3 * 14 * 14 + 28 * 42 * 3
    blocks = 12 * tokens * (layers + 2 * tokens * 384)
    assert of.multiplications == stem + blocks
    assert of.num_parameters == sum(math.prod(size) for size in of.sizes.values())
    assert of.entries == max(tokens * 1536, 6 * tokens**2, 3 * 14 * 14 * patches, 37 * 37)
    assert of.num_activations > 12 * tokens * (3 + 1 + 1) * 384


def test_public_weights_whose_sums_might_be_inexact_are_refused() -> None:
    weights_at_the_bound = {"a.weight": torch.full((2, 64), LARGEST_PUBLIC_SUM / 64)}
    check_public_weights(weights_at_the_bound)
    with pytest.raises(ValueError, match="weights of one output"):
        check_public_weights({"a.weight": torch.full((2, 65), LARGEST_PUBLIC_SUM / 64)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": ()}, "stages must be some of 1 to 5"),
        ({"stages": (6,)}, "stages must be some of 1 to 5"),
        ({"stages": (2, 1)}, "in their order"),
        ({"num_features": 3}, "num_features must be 0"),
        ({"height": 15}, "at least 16x16"),
        ({"channels": 2}, "1 or 3 channels"),
        ({"cells": 5}, "cells"),
        ({"enlarged": 17}, "enlarged"),
        ({"height": 512, "width": 513}, "too large"),
        ({"stages": (4, 5), "cells": 3}, "at most 4096 features"),
    ],
)
def test_trunks_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        trunk("vgg16", **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_features": 0}, "num_features"),
        ({"num_features": MAX_FEATURES + 1}, "num_features"),
        ({"height": 3}, "at least 4x4"),
        ({"height": 100, "width": 100}, "too large"),
        ({"architecture": "mlp-features", "height": 600, "width": 600}, "too large"),
        ({"architecture": "mlp-features", "height": 200, "width": 200}, "images are too large"),
        (
            {"architecture": "mlp-features", "height": 126, "width": 126, "num_features": 1024},
            "too many weights",
        ),
    ],
)
def test_shapes_that_might_be_inexact_or_absurd_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        shape(**changes)
