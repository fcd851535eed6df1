"""DP-MERF-AE: what is released when a run opens, what it costs, and what it may depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.overflow import overflow_probability
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.autoencoder import (
    AutoencoderShape,
    autoencoder_parameters,
    encode,
    example_slopes,
    initial_autoencoder,
    on_grid,
)
from curator.divergences.dp_critic import CriticVector, adam_step
from curator.errors import MalformedRequest
from curator.mechanisms import dp_merf_ae
from curator.mechanisms.base import FreshSamples, ReleasedOnceMechanism
from curator.mechanisms.dp_merf_ae import DpMerfAe, DpMerfAeSpec, autoencoder_shape
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer.example_sum import clip_factors, release_example_sum
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 40,
    "expected_batch_size": 15.0,
    "max_size": 40,
    "max_records_per_unit": 1,
    "autoencoder": "mlp",
    "hidden_width": 5,
    "code_width": 3,
    "autoencoder_seed": 1,
    "clip_norm": 0.5,
    "training_noise_multiplier": 1.1,
    "training_steps": 4,
    "training_learning_rate": 0.05,
    "averaging": 0.5,
    "num_features": 20,
    "bandwidths": [0.5, 1.0],
    "feature_seed": 3,
    "noise_multiplier": 0.9,
    "count_scale": 0.3,
}
SHAPE = AutoencoderShape(dimension=6, hidden_width=5, code_width=3)


def mechanism(**changes: object) -> DpMerfAe:
    return DpMerfAe(DpMerfAeSpec(**(PARAMETERS | changes)), SPACE)


def records(count: int = 30) -> PrivateRecords:
    generator = np.random.default_rng(2)
    levels = generator.integers(0, 17, (40, 1, 2, 3), dtype=np.uint8)[:count]
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(count) % 3), 40)


def released(
    subject: DpMerfAe, given: PrivateRecords | None = None, noise: NoiseSource | None = None
) -> Release:
    source, drawn = records() if given is None else given, noise or SeededNoise(5)
    return subject.setup(private_batches(subject, source, drawn), drawn)


def blocks(release: Release) -> tuple[Tensor, Tensor]:
    """Return the rows of weights, and the values of the sums."""
    weights, sums = release.blocks
    assert isinstance(weights, FloatBlock)
    assert isinstance(sums, LatticeBlock)
    return weights.values, sums.integers.double() * sums.grid


def samples(num_rows: int = 6) -> Samples:
    images = torch.rand(num_rows, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def test_is_released_once_after_a_training_on_samples() -> None:
    subject = mechanism(training_noise_multiplier=0.7)
    assert isinstance(subject, ReleasedOnceMechanism)
    samples = FreshSamples(rate=SamplingRate.at_least(0.5), capacity=40, before_all=4)
    assert subject.requirements().samples == samples
    assert subject.least_noise_multiplier == 0.7
    assert mechanism().least_noise_multiplier == mechanism().noise_multiplier == 0.9
    assert mechanism().rows_per_step is None


def test_every_update_and_the_release_are_charged_when_the_run_opens() -> None:
    subject = mechanism(capacity=24)
    rate = SamplingRate.at_least(0.5)
    sums = SampledSumEvent(
        sampling_rate=rate,
        noise_multiplier=1.1,
        overflow_probability=overflow_probability(40, rate, 24),
        num_releases=4,
    )
    assert sums.overflow_probability > 0
    assert subject.setup_event() == ComposedEvent(
        in_turn=(sums, GaussianEvent(noise_multiplier=0.9))
    )
    assert subject.step_event() == NoEvent()
    grouped = mechanism(max_records_per_unit=2).setup_event()
    assert isinstance(grouped, ComposedEvent)
    grouped_sums = grouped.in_turn[0]
    assert isinstance(grouped_sums, SampledSumEvent)
    assert grouped_sums.overflow_probability == overflow_probability(40, rate, 20)


def test_the_weights_are_those_of_dp_sgd_written_once_more() -> None:
    """Every record is sampled and nothing is noised, so all of it can be computed by hand."""
    subject = mechanism(averaging=0.0)
    weights, _ = blocks(released(subject, noise=SilentNoise()))
    vector = CriticVector.start(initial_autoencoder(SHAPE, 1))
    (batch,) = (sealed.unseal() for sealed in records().batches(40))
    pixels = batch.levels_MD[batch.mask_M].float() / 8 - 1
    for _ in range(4):
        parts = example_slopes(SHAPE, vector.values, pixels)
        clipped = torch.cat(parts, dim=1) * clip_factors(parts, 0.5).unsqueeze(1)
        vector = adam_step(vector, clipped.sum(dim=0) / 15.0, 0.05)
    found = weights.flatten()[: SHAPE.num_parameters]
    torch.testing.assert_close(found, on_grid(vector.values), rtol=0, atol=3e-3)
    assert weights.flatten()[SHAPE.num_parameters :].count_nonzero() == 0
    assert torch.equal(found, on_grid(found))


def test_the_sums_are_those_of_the_released_encoder() -> None:
    subject = mechanism()
    weights, sums = blocks(released(subject, noise=SilentNoise()))
    assert weights.shape == (6, 21)  # 109 weights, padded to rows
    assert sums.shape == (3, 21)
    vector = weights.flatten()[: SHAPE.num_parameters]
    (batch,) = (sealed.unseal() for sealed in records().batches(40))
    kept = batch.mask_M
    codes = encode(autoencoder_parameters(SHAPE, vector), batch.levels_MD[kept].float() / 8 - 1)
    rows = subject._fourier.rows(codes)
    shrink = 1 / math.sqrt(1 + 0.3**2)
    wanted = torch.zeros(3, 20).index_add_(0, batch.labels_M[kept], rows.float()) * shrink
    torch.testing.assert_close(sums[:, :-1].float(), wanted, rtol=0, atol=0.05)
    counts = sums[:, -1] / (0.3 * shrink)
    torch.testing.assert_close(counts, torch.full((3,), 10.0).double(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("averaging", [0.0, 0.5, 0.9])
def test_the_released_weights_are_a_running_mean(averaging: float) -> None:
    subject = mechanism(averaging=averaging)
    seen: list[Tensor] = []
    with pytest.MonkeyPatch.context() as patch:

        def noting(vector: CriticVector, slope: Tensor, rate: float) -> CriticVector:
            after = adam_step(vector, slope, rate)
            seen.append(after.values)
            return after

        patch.setattr(dp_merf_ae, "adam_step", noting)
        weights, _ = blocks(released(subject))
    mean = seen[0]
    for turn, value in enumerate(seen[1:], start=1):
        kept = min(averaging, turn / (turn + 10))
        mean = kept * mean + (1 - kept) * value
    assert len(seen) == 4
    assert torch.equal(weights.flatten()[: SHAPE.num_parameters], on_grid(mean))


def test_given_the_noised_sums_nothing_but_the_embedding_reads_records() -> None:
    """Replay the released sums over other records: the weights are the same."""
    kept: list[Release] = []
    with pytest.MonkeyPatch.context() as patch:
        inner = release_example_sum

        def noting(*arguments: Any, **named: Any) -> Release:
            kept.append(inner(*arguments, **named))
            return kept[-1]

        patch.setattr(dp_merf_ae, "release_example_sum", noting)
        first, _ = blocks(released(mechanism()))
    again = iter(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp_merf_ae, "release_example_sum", lambda *_, **__: next(again))
        second, _ = blocks(released(mechanism(), records(7), SeededNoise(8)))
    assert torch.equal(first, second)


def test_samples_are_taken_before_the_records_and_each_once() -> None:
    subject, drawn = mechanism(), SilentNoise()
    taken: list[str] = []

    def watched() -> Iterator[Private[RecordBatch]]:
        for number, sealed in enumerate(private_batches(subject, records(), drawn)):
            taken.append("sample" if number < 4 else "records")
            yield sealed

    order: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("release_example_sum", "release_class_sums"):
            inner = getattr(dp_merf_ae, name)

            def noting(*given: Any, _inner: Any = inner, _name: str = name, **named: Any) -> Any:
                order.append(_name)
                return _inner(*given, **named)

            patch.setattr(dp_merf_ae, name, noting)
        subject.setup(watched(), drawn)
    assert order == ["release_example_sum"] * 4 + ["release_class_sums"]
    assert taken == ["sample"] * 4 + ["records"] * (len(taken) - 4)


@pytest.mark.parametrize("count", [0, 1, 30, 40])
def test_any_number_of_records_gives_the_same_shapes(count: int) -> None:
    weights, sums = blocks(released(mechanism(), records(count)))
    assert weights.shape == (6, 21)
    assert sums.shape == (3, 21)
    assert bool(torch.isfinite(weights).all())


def test_whatever_goes_wrong_in_a_record_is_an_ordinary_noisy_answer() -> None:
    with pytest.MonkeyPatch.context() as patch:

        def broken(*_: Any) -> list[Tensor]:
            raise OSError("/data/patient-17.png")

        patch.setattr(dp_merf_ae, "example_slopes", broken)
        patch.setattr("curator.divergences.autoencoder.EncoderFeatures.record_rows", broken)
        weights, sums = blocks(released(mechanism()))
    assert bool(torch.isfinite(weights).all())
    assert sums.count_nonzero() > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_slopes_that_are_not_finite_leave_only_noise(bad: float) -> None:
    with pytest.MonkeyPatch.context() as patch:

        def broken(shape: Any, vector: Tensor, images: Tensor) -> list[Tensor]:
            return [part.fill_(bad) for part in example_slopes(shape, vector, images)]

        patch.setattr(dp_merf_ae, "example_slopes", broken)
        weights, _ = blocks(released(mechanism()))
    assert bool(torch.isfinite(weights).all())


def test_a_gradient_pulls_codes_towards_the_class_and_costs_nothing() -> None:
    subject = mechanism(training_noise_multiplier=0.02, noise_multiplier=0.02)
    release = released(subject)
    given = samples()
    weights = autoencoder_parameters(SHAPE, blocks(release)[0].flatten()[: SHAPE.num_parameters])

    def loss(images: Tensor) -> float:
        rows = subject._fourier.rows(encode(weights, images)).double()
        means = subject._counted.class_means(release_values(release)[-3:])
        total = 0.0
        for label in range(3):
            mine = rows[given.labels_N == label]
            total += float(-2 * mine.mean(0) @ means[label]) + float(2 * mine[0] @ mine[1]) / 2
        return total / 3

    found = release_values(subject.gradient(given, release))
    assert found.shape == (6, 6)
    step = 1e-2
    for row, pixel in ((0, 1), (4, 5)):
        nudge = torch.zeros(6, 6)
        nudge[row, pixel] = step
        slope = (loss(given.images_ND + nudge) - loss(given.images_ND - nudge)) / (2 * step)
        assert float(found[row, pixel]) == pytest.approx(slope, rel=0.05, abs=2e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_features": 22}, "num_features"),
        ({"max_records_per_unit": 41}, "max_records_per_unit"),
        ({"autoencoder": "unet"}, "autoencoder"),
        ({"bandwidths": []}, "bandwidths"),
        ({"training_steps": 0}, "training_steps"),
        ({"training_noise_multiplier": 1e6, "max_records_per_unit": 40}, "noise_multiplier"),
    ],
)
def test_wrong_parameters_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        DpMerfAeSpec(**(PARAMETERS | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_width": 4096, "code_width": 1024}, "hidden_width"),
        ({"capacity": 65536}, "capacity"),
        ({"training_steps": 1 << 20, "hidden_width": 512}, "training_steps"),
        ({"num_features": 65536, "bandwidths": [1.0]}, "num_features"),
    ],
)
def test_absurd_amounts_of_work_are_refused(change: dict[str, Any], words: str) -> None:
    space = ImageSpace(channels=3, height=32, width=32, max_level=255, num_classes=500)
    with pytest.raises(MalformedRequest, match=words):
        autoencoder_shape(DpMerfAeSpec(**(PARAMETERS | change)), space)


def test_samples_that_do_not_fit_are_refused() -> None:
    subject = mechanism()
    subject.check_samples(samples(1))
    with pytest.raises(MalformedRequest, match="rows of 6 pixels"):
        subject.check_samples(
            Samples(images_ND=torch.zeros(1, 5), labels_N=torch.zeros(1, dtype=torch.int64))
        )
