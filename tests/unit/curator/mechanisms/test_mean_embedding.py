"""The mean embedding: one release, then gradients that touch nothing private."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences import device, random_features
from curator.errors import MalformedRequest
from curator.mechanisms.base import ReleasedOnceMechanism
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.post_process import release_values
from tests.fakes.card import pretended_card
from tests.unit.curator.mechanisms.silent import SilentNoise

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
PIXELS: dict[str, Any] = {
    "num_features": 24,
    "bandwidths": [1.0, 2.0],
    "feature_seed": 5,
    "noise_multiplier": 0.5,
    "count_scale": 0.3,
}
OPTIONAL: dict[str, Any] = {
    "feature_map": "rff",
    "num_scattering_features": 0,
    "scattering_bandwidths": [],
    "scattering_share": 0.6,
}
PARAMETERS: dict[str, Any] = PIXELS | OPTIONAL
SCATTERING: dict[str, Any] = PARAMETERS | {
    "feature_map": "scattering-rff",
    "num_features": 0,
    "bandwidths": [],
    "num_scattering_features": 40,
    "scattering_bandwidths": [1.0, 2.0],
}
MIX: dict[str, Any] = SCATTERING | {
    "feature_map": "mix",
    "num_features": 24,
    "bandwidths": [1.0, 2.0],
}
SORF: dict[str, Any] = PARAMETERS | {"feature_map": "sorf"}
MIX_SORF: dict[str, Any] = MIX | {"feature_map": "mix-sorf"}


def mechanism(**changes: object) -> MeanEmbedding:
    return MeanEmbedding(MeanEmbeddingSpec(**(PARAMETERS | changes)), SPACE)


def batch(num_records: int, label: int, seed: int) -> Private[RecordBatch]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(8) < num_records
    levels = torch.randint(0, 17, (8, 6), generator=generator) * mask.unsqueeze(1)
    return Private(
        RecordBatch(
            levels_MD=levels.to(torch.uint8),
            labels_M=label * mask.to(torch.int64),
            mask_M=mask,
            units_M=torch.where(mask, torch.arange(8), -1),
        )
    )


def released(subject: MeanEmbedding) -> Release:
    return subject.setup([batch(8, 0, 0), batch(3, 0, 1), batch(5, 2, 2)], SilentNoise())


def samples(images: torch.Tensor) -> Samples:
    return Samples(images_ND=images, labels_N=torch.tensor([0, 0, 1, 2]))


def test_is_released_once_and_then_free() -> None:
    subject = mechanism()
    assert isinstance(subject, ReleasedOnceMechanism)
    assert subject.setup_event() == GaussianEvent(noise_multiplier=0.5)
    assert subject.step_event() == NoEvent()
    assert set(inspect.signature(subject.gradient).parameters) == {"samples", "released"}


def test_release_holds_sums_and_scaled_counts_of_each_class() -> None:
    values = release_values(released(mechanism()))
    assert values.shape == (3, 25)
    scale = 0.3 / math.sqrt(1 + 0.3**2)
    torch.testing.assert_close(
        values[:, -1] / scale, torch.tensor([11.0, 0.0, 5.0]).double(), rtol=1e-3, atol=0
    )
    assert values[1].count_nonzero() == 0


def test_gradient_pulls_towards_the_class_mean() -> None:
    subject = mechanism(noise_multiplier=0.01)
    sums = released(subject)
    images = torch.zeros(4, 6).uniform_(-1, 1, generator=torch.Generator().manual_seed(9))

    def loss(moved: torch.Tensor) -> float:
        rows = subject._features.rows(moved.double())
        values = release_values(sums)
        total = 0.0
        for label, size in ((0, 11), (2, 5)):
            mean = values[label, :-1] * math.sqrt(1 + 0.3**2) / size
            mine = rows[samples(moved).labels_N == label]
            total += float(-2 * mine.mean(0) @ mean)
            if mine.shape[0] > 1:
                total += float(2 * mine[0] @ mine[1]) / 2
        return total / 3

    rows = release_values(subject.gradient(samples(images), sums))
    assert rows.shape == (4, 6)
    step = 1e-3
    for row, pixel in ((0, 1), (3, 4)):
        nudge = torch.zeros(4, 6)
        nudge[row, pixel] = step
        slope = (loss(images + nudge) - loss(images - nudge)) / (2 * step)
        assert abs(slope - float(rows[row, pixel])) < 2e-4


def test_noise_below_zero_counts_stays_finite() -> None:
    class Negative(SilentNoise):
        def discrete_gaussian(self, num_values: int) -> torch.Tensor:
            return torch.full((num_values,), -3 * 65538)

    subject = mechanism()
    release = subject.setup([batch(0, 0, 0)], Negative())
    rows = release_values(subject.gradient(samples(torch.zeros(4, 6)), release))
    assert rows.isfinite().all()
    assert float(rows.abs().max()) < 10


def test_the_public_seed_decides_the_features() -> None:
    first, again, other = mechanism(), mechanism(), mechanism(feature_seed=6)
    assert torch.equal(release_values(released(first)), release_values(released(again)))
    assert not torch.equal(release_values(released(first)), release_values(released(other)))


def test_samples_that_do_not_fit_are_refused() -> None:
    for images, labels in (
        (torch.zeros(0, 6), torch.zeros(0)),
        (torch.zeros(2, 5), torch.zeros(2)),
        (torch.zeros(2, 6), torch.full((2,), -1)),
    ):
        with pytest.raises(MalformedRequest):
            mechanism().check_samples(Samples(images_ND=images, labels_N=labels.long()))
    mechanism().check_samples(samples(torch.zeros(4, 6)))


@pytest.mark.parametrize("chosen", [PARAMETERS, SCATTERING, MIX, SORF, MIX_SORF])
def test_every_map_releases_rows_of_norm_one(chosen: dict[str, Any]) -> None:
    subject = mechanism(**chosen)
    values = release_values(subject.setup([batch(1, 1, 3)], SilentNoise()))
    assert values.shape == (3, 1 + chosen["num_features"] + chosen["num_scattering_features"])
    norm = float(values[1].norm())
    assert 0.999 < norm <= 1
    assert values[0].count_nonzero() == values[2].count_nonzero() == 0


CARDS = [
    "fake",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
    ),
]


@pytest.fixture(params=CARDS)
def card(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def forget() -> None:
        monkeypatch.setattr(device, "_chosen", {})
        random_features.fourier_features.cache_clear()
        random_features.orthogonal_features.cache_clear()

    forget()
    with pretended_card() if request.param == "fake" else nullcontext("cuda") as name:
        yield str(name)
    forget()


def of_groups() -> Private[RecordBatch]:
    """Return eight records: three of one unit, two of another, and three alone."""
    whole = batch(8, 1, 4).unseal()
    units = torch.tensor([0, 1, 0, 2, 0, 1, 5, 4])
    return Private(replace(whole, units_M=units, labels_M=torch.arange(8) % 3))


@pytest.mark.parametrize("chosen", [PARAMETERS, SCATTERING, MIX, SORF, MIX_SORF])
def test_a_card_releases_the_integers_of_the_processor(
    card: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [batch(8, 0, 0), batch(3, 2, 1), batch(0, 0, 1), of_groups()]
    images = torch.rand(4, 6, generator=torch.Generator().manual_seed(6)) * 2 - 1

    def found(where: str) -> tuple[torch.Tensor, torch.Tensor]:
        random_features.fourier_features.cache_clear()
        random_features.orthogonal_features.cache_clear()
        monkeypatch.setitem(device._chosen, "device", torch.device(where))
        subject = mechanism(**chosen)
        sums = subject.setup(batches, SilentNoise())
        (block,) = sums.blocks
        assert isinstance(block, LatticeBlock)
        return block.integers, release_values(subject.gradient(samples(images), sums))

    integers, gradient = found("cpu")
    on_card, gradient_on_card = found(card)
    assert torch.equal(on_card, integers)
    assert (integers.abs().sum(dim=1) > 0).all()
    assert torch.allclose(gradient_on_card, gradient, atol=1e-5)


@pytest.mark.parametrize("chosen", [SCATTERING, MIX, SORF, MIX_SORF])
def test_the_gradient_of_scattering_maps_points_uphill(chosen: dict[str, Any]) -> None:
    subject = mechanism(**chosen | {"noise_multiplier": 0.01})
    sums = released(subject)
    means = subject._counted.class_means(release_values(sums))
    generator = torch.Generator().manual_seed(4)
    images = torch.rand(4, 6, generator=generator, dtype=torch.float64) * 1.6 - 0.8
    labels = samples(images).labels_N

    def loss(moved: torch.Tensor) -> float:
        rows = subject._features.rows(moved)
        total = 0.0
        for label in range(3):
            mine = rows[labels == label]
            total += float(-2 * mine.mean(0) @ means[label])
            if len(mine) > 1:
                total += float(mine[0] @ mine[1])
        return total / 3

    slopes = release_values(subject.gradient(samples(images.float()), sums))
    for row, pixel in ((0, 1), (3, 4)):
        nudge = torch.zeros_like(images)
        nudge[row, pixel] = 1e-4
        rise = loss(images + nudge) - loss(images - nudge)
        assert abs(rise / 2e-4 - float(slopes[row, pixel])) < 2e-4


@pytest.mark.parametrize("field", sorted(PIXELS))
def test_nothing_that_matters_has_a_default(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        MeanEmbeddingSpec(**{key: value for key, value in PARAMETERS.items() if key != field})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_features", 0),
        ("num_features", 26),
        ("num_features", 1 << 20),
        ("bandwidths", []),
        ("bandwidths", [0.0, 1.0]),
        ("bandwidths", [float("inf"), 1.0]),
        ("bandwidths", [1.0] * 40),
        ("feature_seed", -1),
        ("feature_seed", 2**63),
        ("noise_multiplier", 1e-3),
        ("count_scale", 0.0),
        ("count_scale", float("nan")),
        ("gamma", 1.0),
        ("feature_map", "raw"),
        ("feature_map", "mix"),
        ("feature_map", "scattering-rff"),
        ("feature_map", "mix-sorf"),
        ("feature_map", "scattering-sorf"),
        ("num_scattering_features", 8),
        ("scattering_bandwidths", [1.0]),
        ("scattering_share", 0.0),
        ("scattering_share", 1.0),
    ],
)
def test_wrong_parameters_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        MeanEmbeddingSpec(**(PARAMETERS | {field: value}))


def test_features_beyond_memory_are_refused() -> None:
    space = ImageSpace(channels=3, height=512, width=512, max_level=255, num_classes=2)
    with pytest.raises(MalformedRequest, match="num_features"):
        MeanEmbedding(MeanEmbeddingSpec(**(PARAMETERS | {"num_features": 2000})), space)
    with pytest.raises(MalformedRequest, match="num_features"):
        MeanEmbedding(MeanEmbeddingSpec(**SORF), space)  # sums of more pixels may be inexact
