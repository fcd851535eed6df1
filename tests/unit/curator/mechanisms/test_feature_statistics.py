"""Statistics of public features: what is released, and that it is what the records say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.feature_maps import ROW_UNITS
from curator.errors import MalformedRequest
from curator.mechanisms import feature_statistics
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.privacy.batches import PASS_ROWS, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.sanitizer.outer import RIGHT_RADIUS
from curator.sanitizer.post_process import release_values
from tests.fakes import networks
from tests.fakes.networks import NUM_FEATURES, SPACE, mechanism
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise

SIZE = 24


@pytest.fixture(autouse=True)
def _network(tmp_path: Path) -> None:
    networks.offer(tmp_path)


def batch(seed: int, num_records: int = SIZE) -> RecordBatch:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(SIZE) < num_records
    levels = torch.randint(0, 17, (SIZE, SPACE.dimension), generator=generator)
    labels = torch.randint(0, 3, (SIZE,), generator=generator)
    return RecordBatch(
        levels_MD=(levels * mask.unsqueeze(1)).to(torch.uint8),
        labels_M=labels * mask,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(SIZE), -1),
    )


def quiet(**changes: Any) -> FeatureStatistics:
    """Return a mechanism whose grid is fine; the noise is left out by the tests."""
    least: dict[str, Any] = {
        "noise_multiplier": 0.2,
        "refinements": [0.2],
        "moment_noise_multiplier": 0.2,
    }
    return mechanism(**(least | {"max_size": 100} | changes))


def table(subject: FeatureStatistics, *inside: RecordBatch, noise: NoiseSource) -> Tensor:
    release = subject.setup([Private(one) for one in inside], noise)
    return release_values(release)


def rows_of(subject: FeatureStatistics, inside: RecordBatch) -> Tensor:
    return subject._features.record_rows(inside.levels_MD)


def test_is_released_once_and_then_free() -> None:
    subject = mechanism(refinements=[1.2, 1.4])
    noises = (1.1, 1.2, 1.4, 1.3)
    events = tuple(GaussianEvent(noise_multiplier=one) for one in noises)
    assert subject.setup_event() == ComposedEvent(in_turn=events)
    assert subject.step_event() == NoEvent()
    assert subject.least_noise_multiplier == 1.1


def test_means_and_moments_are_those_of_the_records() -> None:
    subject = quiet(radius_scale=8.0, moment_width=NUM_FEATURES)
    first, second = batch(1), batch(2, 17)
    values = table(subject, first, second, noise=SilentNoise())
    assert values.shape == (5 + 5 + 3, NUM_FEATURES + 1)
    directions_RS = values[:5, :5].T
    matrix_SS = values[5:10, :5]
    rows = torch.cat((rows_of(subject, first), rows_of(subject, second)[:17]))
    labels = torch.cat((first.labels_M, second.labels_M[:17]))
    means = torch.stack([rows[labels == one].mean(dim=0) for one in range(3)])
    found = subject._counted.class_means(values[-3:])
    torch.testing.assert_close(found, means, rtol=0, atol=2e-3)
    counts = torch.bincount(labels).double()
    torch.testing.assert_close(subject._counted.counts(values[-3:]), counts, rtol=0, atol=1e-2)
    apart = (rows - means[labels]) @ directions_RS
    torch.testing.assert_close(matrix_SS, apart.T @ apart / len(rows), rtol=0, atol=2e-3)
    assert float(matrix_SS.trace()) > 1e-2


def test_moments_by_class_are_of_that_class() -> None:
    subject = quiet(radius_scale=8.0, moments="by-class", moment_width=2)
    inside = batch(3)
    values = table(subject, inside, noise=SilentNoise())
    assert values.shape == (2 + 3 * 2 + 3, NUM_FEATURES + 1)
    rows, directions_RS = rows_of(subject, inside), values[:2, :NUM_FEATURES].T
    for one in range(3):
        own = rows[inside.labels_M == one]
        apart = (own - own.mean(dim=0)) @ directions_RS
        found = values[2 + 2 * one : 4 + 2 * one, :2]
        torch.testing.assert_close(found, apart.T @ apart / len(own), rtol=0, atol=2e-3)


def test_a_second_estimate_of_the_means_is_weighed_by_its_noise() -> None:
    """Both have noise of their own; the second, over a smaller radius, has less."""
    inside = [batch(seed) for seed in range(6)]
    plain, twice = quiet(refinements=[]), quiet(refinements=[0.2], radius_scale=1.5)
    rows = torch.cat([rows_of(plain, one) for one in inside])
    labels = torch.cat([one.labels_M for one in inside])
    means = torch.stack([rows[labels == one].mean(dim=0) for one in range(3)])

    def error(subject: FeatureStatistics) -> float:
        found = [
            subject._counted.class_means(table(subject, *inside, noise=SeededNoise(seed))[-3:])
            for seed in range(20)
        ]
        return float((torch.stack(found) - means).square().mean())

    assert error(twice) < 0.8 * error(plain)


def test_the_gradient_leads_images_to_the_released_means() -> None:
    subject = quiet(max_size=200)
    inside = [batch(seed) for seed in range(6)]
    released = subject.setup([Private(one) for one in inside], SilentNoise())
    noise = torch.rand((12, SPACE.dimension), generator=torch.Generator().manual_seed(5))
    images = noise * 0.1 - 1  # all of them dark, and far from the means
    labels, means = (
        torch.arange(12) % 3,
        subject._counted.class_means(release_values(released)[-3:]),
    )

    def distance(given: Tensor) -> float:
        rows = subject._features.rows(given).double()
        own = torch.stack([rows[labels == one].mean(dim=0) for one in range(3)])
        return float((own - means).square().sum())

    moved = images.clone()
    for _ in range(30):
        samples = Samples(images_ND=moved, labels_N=labels)
        subject.check_samples(samples)
        slope = release_values(subject.gradient(samples, released)).float()
        moved = (moved - 30 * slope).clamp(-1, 1)
    assert distance(moved) < 0.5 * distance(images)


def test_rows_are_integers_of_norm_one_that_do_not_know_their_companions() -> None:
    subject, inside = mechanism(), batch(4)
    kept = subject._kept(inside)
    assert kept.dtype == torch.int16
    assert ROW_UNITS == RIGHT_RADIUS
    squares = kept[:, :-1].double().square().sum(dim=1)
    assert bool((squares <= ROW_UNITS**2).all())
    assert float(squares.max()) > 0.999 * ROW_UNITS**2
    assert torch.equal(kept[:, -1].long(), inside.labels_M)
    for row in (0, 7, SIZE - 1):
        lone = RecordBatch(
            **{name: getattr(inside, name)[row : row + 1] for name in RecordBatch.__slots__}
        )
        assert torch.equal(subject._kept(lone)[0], kept[row])


def test_any_number_of_records_gives_the_same_shape() -> None:
    subject = mechanism()
    shapes = {table(subject, batch(1, count), noise=SeededNoise(1)).shape for count in (0, 1, SIZE)}
    assert len(shapes) == 1
    assert bool(table(subject, batch(1, 0), noise=SeededNoise(1)).isfinite().all())


def test_a_record_that_breaks_takes_nobody_along(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, inside = quiet(), batch(6)
    whole = subject._kept(inside)
    real = type(subject._features).integer_rows

    def breaking(self: Any, levels_MD: Tensor) -> Tensor:
        if bool((levels_MD == inside.levels_MD[3]).all(dim=1).any()):
            raise RuntimeError
        return real(self, levels_MD)

    monkeypatch.setattr(type(subject._features), "integer_rows", breaking)
    kept = subject._kept(inside)
    others = torch.arange(SIZE) != 3
    assert torch.equal(kept[others], whole[others])
    assert not kept[3, :-1].any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"moment_width": 6}, "moment_width"),
        ({"stages": [1]}, "stages must be empty"),
        ({"cells": 2}, "cells"),
        ({"num_features": 0}, "num_features"),
        ({"num_features": 6}, "features.weight must be float32 of shape"),
        ({"network": "other"}, "curator network list"),
        ({"network_sha256": "0" * 64}, "curator network list"),
        ({"architecture": "cnn-features"}, "was added as lenet-features"),
        ({"max_size": 1 << 31}, "too much work"),
        ({"architecture": "vgg16", "num_features": 0, "stages": [1]}, "at least 16x16"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_charge(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        mechanism(**changes)
    assert words in str(refused.value.detail)


def test_steps_and_batches_that_would_take_the_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = mechanism()
    of_a_row = feature_statistics._KEPT_OF_A_MAP * subject._features.shape.num_activations
    assert of_a_row > 4 * SPACE.dimension
    monkeypatch.setattr(feature_statistics, "_MAX_STEP_VALUES", 7 * of_a_row)
    assert subject.any_rows == range(1, 8)
    monkeypatch.setattr(feature_statistics, "_MAX_PRODUCTS", 2 * PASS_ROWS)
    with pytest.raises(MalformedRequest, match="too many products for a batch"):
        mechanism(max_records_per_unit=8)


@pytest.mark.parametrize(
    "changes",
    [
        {"network_declared": "perhaps"},
        {"network": "../tiny"},
        {"network_sha256": "abc"},
        {"stages": [2, 1]},
        {"stages": [1, 1]},
        {"refinements": [1.0] * 4},
        {"refinements": [0.0]},
        {"moment_noise_multiplier": math.nan},
        {"moment_width": 0},
    ],
)
def test_parameters_without_a_meaning_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        mechanism(**changes)


def test_a_network_whose_file_was_changed_is_refused(tmp_path: Path) -> None:
    mechanism()
    file = tmp_path / "tiny.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    with pytest.raises(MalformedRequest, match="was changed"):
        mechanism()
