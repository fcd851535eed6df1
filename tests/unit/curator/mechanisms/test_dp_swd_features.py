"""DP-SWD on features: what is released, what it costs, and what the analyst's weights cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save
from torch import Tensor

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.overflow import overflow_probability
from curator.divergences.feature_nets import ROW_RADIUS, feature_rows
from curator.divergences.sliced import clip_rows, sliced_distance
from curator.errors import MalformedRequest
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.dp_swd_features import DpSwdFeatures, DpSwdFeaturesSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.post_process import release_values
from tests.fakes.features import PARAMETERS, batch, mechanism, records, samples, weights
from tests.fakes.noise import SeededNoise


class Recorded:
    """Real words for directions and slots; no noise."""

    def __init__(self) -> None:
        self._source = OsEntropy()
        self.draws: list[int] = []

    def discrete_gaussian(self, num_values: int) -> Tensor:
        self.draws.append(num_values)
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return self._source.uniform_words(num_words)


def kept_directions(patch: pytest.MonkeyPatch) -> list[Directions]:
    kept: list[Directions] = []

    def drawn(*arguments: Any) -> Directions:
        kept.append(draw_directions(*arguments))
        return kept[-1]

    patch.setattr("curator.mechanisms.sliced_step.draw_directions", drawn)
    return kept


def test_is_a_sampled_mechanism_charged_in_the_dimension_of_the_features() -> None:
    subject = mechanism()
    assert isinstance(subject, SampledMechanism)
    assert subject.setup_event() == NoEvent()
    rate = SamplingRate.at_least(0.1)
    assert subject.step_event() == SampledSlicedGaussianEvent(
        sampling_rate=rate,
        base=SlicedGaussianEvent(dimension=7, num_projections=5, noise_multiplier=1.1),
        overflow_probability=overflow_probability(30, rate, 6),
    )
    assert (subject.spec.capacity, subject.rows_per_step) == (6, 4)


def test_units_of_several_records_fill_the_slots_sooner() -> None:
    event = mechanism(max_records_per_unit=2).step_event()
    assert isinstance(event, SampledSlicedGaussianEvent)
    assert event.overflow_probability == overflow_probability(30, SamplingRate.at_least(0.1), 3)


@pytest.mark.parametrize("architecture", ["lenet-features", "mlp-features"])
def test_the_gradient_is_that_of_the_distance(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By autograd from the definition, in units of features."""
    kept = kept_directions(monkeypatch)
    subject = mechanism(architecture=architecture)
    asked, inside = samples(subject), batch(5)
    found = release_values(subject.gradient(asked, Private(inside), Recorded()))
    rows = feature_rows(subject.shape, weights(subject), inside.levels_MD, 0.4)
    private = clip_rows(rows * (0.4 / ROW_RADIUS), 0.4)
    private[5] = 0
    features = asked.images_ND.double().requires_grad_()
    public = torch.cat((clip_rows(features, 0.4), torch.zeros(2, 7).double()))
    units = kept[0].unit_columns
    distance = sliced_distance(public @ units, private @ units) * 7
    (wanted,) = torch.autograd.grad(distance, features)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)
    assert float(wanted.abs().max()) > 1e-2


@pytest.mark.parametrize("num_records", [0, 1, 6])
def test_every_batch_size_gives_the_same_shapes(num_records: int) -> None:
    noise, subject = Recorded(), mechanism()
    values = release_values(subject.gradient(samples(subject), records(num_records), noise))
    assert values.shape == (4, 7)
    assert values.isfinite().all()
    assert noise.draws == [30, 30]


def test_labels_of_records_are_never_read() -> None:
    subject, inside = mechanism(), batch(6)
    answers = [
        release_values(
            subject.gradient(
                samples(subject), Private(replace(inside, labels_M=labels)), SeededNoise(3)
            )
        )
        for labels in (inside.labels_M, torch.full((6,), -7), torch.full((6,), 10**9))
    ]
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


def test_the_answer_is_a_function_of_the_release_and_of_public_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given what the sanitizer released, no record can change a bit of it."""
    subject = mechanism()
    released: list[Release] = []
    real = DpSwdFeatures.project

    def once(self: DpSwdFeatures, *arguments: Any) -> Release:
        made = real(self, *arguments)
        released.append(made)
        return released[0]

    monkeypatch.setattr(DpSwdFeatures, "project", once)
    answers = [
        release_values(subject.gradient(samples(subject), records(5, seed=seed), SeededNoise(4)))
        for seed in (1, 2)
    ]
    first, second = (one.blocks[0] for one in released)
    assert isinstance(first, LatticeBlock)
    assert isinstance(second, LatticeBlock)
    assert not torch.equal(first.integers, second.integers)
    assert torch.equal(*answers)


def test_directions_are_drawn_anew_for_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, subject = kept_directions(monkeypatch), mechanism()
    for _ in range(2):
        subject.gradient(samples(subject), records(3), OsEntropy())
    first, second = kept
    assert not bool((first.integers_DK == second.integers_DK).any())


def test_a_broken_batch_is_answered_like_any_other() -> None:
    subject = mechanism()
    broken = RecordBatch(
        levels_MD=torch.zeros(6, 19, dtype=torch.uint8),  # no row can be computed
        labels_M=torch.zeros(6, dtype=torch.int64),
        mask_M=torch.ones(6, dtype=torch.bool),
        units_M=torch.arange(6),
    )
    directions = draw_directions(7, 5, OsEntropy())
    (block,) = subject.project(samples(subject), Private(broken), directions, Recorded()).blocks
    assert isinstance(block, LatticeBlock)
    assert block.integers.count_nonzero() == 0
    answer = subject.gradient(samples(subject), Private(broken), OsEntropy())
    assert release_values(answer).shape == (4, 7)


def test_declared_samples_pass() -> None:
    subject = mechanism()
    subject.check_samples(samples(subject))


def changed(**changes: Any) -> Samples:
    return samples(mechanism(), **changes)


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        (changed(images_ND=torch.zeros(3, 7)), "4 rows of 7 features"),
        (changed(images_ND=torch.zeros(4, 20)), "4 rows of 7 features"),
        (changed(images_ND=torch.full((4, 7), torch.nan)), "finite"),
        (changed(images_ND=torch.full((4, 7), 2e6)), "at most 1e\\+06"),
        (changed(weights=b""), "safetensors"),
        (changed(weights=save({"a": torch.zeros(9)})), "safetensors"),
        (changed(weights=save(weights(mechanism(architecture="mlp-features")))), "safetensors"),
        (changed(weights=save(weights(mechanism(), 17.0))), "at most 16"),
        (changed(weights=save(weights(mechanism(), float("nan")))), "finite"),
    ],
)
def test_undeclared_features_and_weights_are_refused(asked: Samples, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism().check_samples(asked)


@pytest.mark.parametrize("field", sorted(PARAMETERS))
def test_nothing_has_a_default(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        DpSwdFeaturesSpec(**{key: value for key, value in PARAMETERS.items() if key != field})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sampling_rate", 0.0),
        ("capacity", 3),  # below num_samples
        ("num_samples", 7),
        ("num_projections", 0),
        ("num_projections", 1 << 17),
        ("architecture", "resnet-features"),
        ("num_features", 0),
        ("num_features", 1 << 20),
        ("clip_norm", 0.0),
        ("clip_norm", float("inf")),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", 1e5),
        ("max_size", 0),
        ("max_records_per_unit", 7),
        ("label_scale", 1.0),
    ],
)
def test_wrong_parameters_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        DpSwdFeaturesSpec(**(PARAMETERS | {field: value}))


def test_noise_beyond_memory_is_refused() -> None:
    with pytest.raises(ValidationError, match="2\\^24"):
        mechanism(capacity=1 << 16, num_projections=1 << 10)


@pytest.mark.parametrize(
    ("side", "changes", "words"),
    [
        (3, {}, "at least 4x4"),
        (100, {}, "too large"),
        (88, {"capacity": 1 << 16}, "too much work"),
    ],
)
def test_sizes_that_do_not_fit_the_images_are_refused(
    side: int, changes: dict[str, Any], words: str
) -> None:
    space = ImageSpace(channels=1, height=side, width=side, max_level=255, num_classes=1)
    with pytest.raises(MalformedRequest, match=words):
        DpSwdFeatures(DpSwdFeaturesSpec(**(PARAMETERS | changes)), space)
