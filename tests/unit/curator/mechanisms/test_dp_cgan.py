"""DP-CGAN: what is released, what it costs, what a state may depend on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.cost import event_cost
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.overflow import overflow_probability
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences import dp_critic
from curator.divergences.dp_critic import image_slopes
from curator.errors import MalformedRequest
from curator.mechanisms import dp_cgan
from curator.mechanisms.base import (
    FreshSamples,
    StatefulMechanism,
)
from curator.mechanisms.dp_cgan import DpCgan, DpCganSpec, dp_critic_shape
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, Release
from curator.sanitizer import example_sum
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
OPTIONAL = ("adaptive_threshold", "adaptive_decay", "adaptive_grace")
PARAMETERS: dict[str, Any] = dict.fromkeys(OPTIONAL) | {
    "sampling_rate": 0.5,
    "capacity": 40,
    "expected_batch_size": 15.0,
    "num_samples": 6,
    "num_fakes": 4,
    "clip_norm": 0.5,
    "noise_multiplier": 1.1,
    "max_size": 40,
    "max_records_per_unit": 1,
    "critic": "mlp",
    "critic_width": 8,
    "critic_seed": 1,
    "critic_steps": 3,
    "critic_learning_rate": 0.01,
}


def mechanism(**changes: object) -> DpCgan:
    return DpCgan(DpCganSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 6, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def records(count: int = 30) -> PrivateRecords:
    generator = np.random.default_rng(2)
    levels = generator.integers(0, 17, (count, 1, 2, 3), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(count) % 3), 40)


def stream(
    subject: DpCgan, given: PrivateRecords | None = None, noise: NoiseSource | None = None
) -> Iterator[Private[RecordBatch]]:
    source, drawn = records() if given is None else given, noise or SeededNoise(5)
    while True:
        yield source.poisson_batch(subject.spec.rate, subject.spec.capacity, drawn)


def rows(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, FloatBlock)
    return block.values


def test_is_a_stateful_mechanism_that_samples() -> None:
    subject = mechanism()
    assert isinstance(subject, StatefulMechanism)
    assert subject.requirements().samples == FreshSamples(
        rate=subject.spec.rate, capacity=subject.spec.capacity
    )
    assert subject.durability == "every-step"
    assert subject.rows_per_step == 6


def test_every_update_of_a_step_is_charged_with_its_overflow() -> None:
    subject = mechanism(capacity=24)
    rate = SamplingRate.at_least(0.5)
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == SampledSumEvent(
        sampling_rate=rate,
        noise_multiplier=1.1,
        overflow_probability=overflow_probability(40, rate, 24),
        num_releases=3,
    )
    grouped = mechanism(max_records_per_unit=2).step_event()
    assert isinstance(grouped, SampledSumEvent)
    assert grouped.overflow_probability == overflow_probability(40, rate, 20) > 0
    one = mechanism(critic_steps=1).step_event()
    assert event_cost(mechanism().step_event()) == event_cost(one) * 3


@pytest.mark.parametrize("critic", ["mlp", "conv"])
def test_the_answer_is_the_generators_gradient_under_the_updated_critic(critic: str) -> None:
    subject, noise = mechanism(critic=critic), SilentNoise()
    state, release = subject.gradient(subject.start(stream(subject)), samples(), noise)
    shape = dp_critic_shape(subject.spec, SPACE)
    onehot = torch.eye(3)[samples().labels_N]
    wanted = image_slopes(shape, state.critic.values, samples().images_ND, onehot)
    assert torch.equal(rows(release), wanted)
    assert noise.num_draws == 3 * shape.num_parameters
    assert state.critic.num_updates == 3


def test_critics_learn_to_tell_records_from_samples() -> None:
    subject = mechanism(critic_steps=60)
    levels = np.full((30, 1, 2, 3), 16, dtype=np.uint8)
    white = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(30, dtype=np.int64)), 40)
    black = Samples(images_ND=-torch.ones(6, 6), labels_N=torch.zeros(6, dtype=torch.int64))
    state = subject.start(stream(subject, white))
    _, release = subject.gradient(state, black, SilentNoise())
    assert bool((rows(release) < 0).all())  # descent makes them whiter


class Watched:
    """Counts what is taken from a stream."""

    def __init__(self, inner: Iterator[Private[RecordBatch]]) -> None:
        self.inner, self.taken = inner, 0

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> Private[RecordBatch]:
        self.taken += 1
        return next(self.inner)


def test_each_update_takes_one_fresh_sample_and_nothing_else_does() -> None:
    subject = mechanism()
    watched = Watched(stream(subject))
    state = subject.start(watched)
    assert watched.taken == 0
    state, _ = subject.gradient(state, samples(), SilentNoise())
    assert watched.taken == 3
    subject.unpack(subject.pack(state), watched)
    subject.gradient(state, samples(), SilentNoise())
    assert watched.taken == 6


def test_fakes_are_taken_in_turn_whatever_the_records_are() -> None:
    subject, seen = mechanism(num_samples=5, num_fakes=2), []
    original = dp_critic.example_slopes

    def noting(shape: Any, vector: Tensor, examples: Any) -> Any:
        if not examples.are_records:
            seen.append(examples)
        return original(shape, vector, examples)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp_cgan, "example_slopes", noting)
        subject.gradient(subject.start(stream(subject)), samples(5), SilentNoise())
    for examples, turned in zip(seen, ([0, 1], [2, 3], [4, 0]), strict=True):
        assert torch.equal(examples.images_ND, samples(5).images_ND[turned])
        assert torch.equal(examples.onehot_NL, torch.eye(3)[samples(5).labels_N[turned]])


def test_a_state_that_was_packed_goes_on_bit_for_bit() -> None:
    subject, releases = mechanism(), []
    state, _ = subject.gradient(subject.start(stream(subject)), samples(), SeededNoise(1))
    tensors = subject.pack(state)
    for _ in range(2):
        again = subject.unpack(tensors, stream(subject, noise=SeededNoise(8)))
        _, release = subject.gradient(again, samples(seed=1), SeededNoise(2))
        releases.append(rows(release))
    assert torch.equal(*releases)
    assert {name: value.dtype for name, value in tensors.items()} == {
        "values": torch.float32,
        "means": torch.float32,
        "squares": torch.float32,
        "num_updates": torch.int64,
    }


def test_given_the_noised_sums_nothing_depends_on_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what is released held fixed, other records give the same state and the same answer."""
    subject, kept = mechanism(), []
    original = example_sum.release_example_sum

    def recording(*arguments: Any, **named: Any) -> Release:
        kept.append(original(*arguments, **named))
        return kept[-1]

    monkeypatch.setattr(dp_cgan, "release_example_sum", recording)
    first = subject.gradient(subject.start(stream(subject)), samples(), SeededNoise(1))
    replayed = iter(kept[:])
    monkeypatch.setattr(dp_cgan, "release_example_sum", lambda *_, **__: next(replayed))
    other = stream(subject, records(7), SeededNoise(77))
    second = subject.gradient(subject.start(other), samples(), SeededNoise(99))
    assert torch.equal(rows(first[1]), rows(second[1]))
    for name, value in subject.pack(first[0]).items():
        assert torch.equal(value, subject.pack(second[0])[name])


class PlantedError(RuntimeError):
    """What fails inside a private computation."""


def test_a_broken_computation_is_answered_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(shape: Any, vector: Tensor, examples: Any) -> Any:
        if examples.are_records:
            raise PlantedError
        return original(shape, vector, examples)

    original = dp_critic.example_slopes
    monkeypatch.setattr(dp_cgan, "example_slopes", broken)
    subject = mechanism()
    state, release = subject.gradient(subject.start(stream(subject)), samples(), SilentNoise())
    assert rows(release).shape == (6, 6)
    assert state.critic.num_updates == 3


@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_records_gives_the_same_shapes(count: int) -> None:
    subject = mechanism()
    state = subject.start(stream(subject, records(count)))
    _, release = subject.gradient(state, samples(), SeededNoise(3))
    assert rows(release).shape == (6, 6)
    assert bool(torch.isfinite(rows(release)).all())


def test_the_state_that_was_given_is_unchanged() -> None:
    subject = mechanism()
    state = subject.start(stream(subject))
    before = {name: value.clone() for name, value in subject.pack(state).items()}
    subject.gradient(state, samples(), SeededNoise(1))
    for name, value in subject.pack(state).items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"num_fakes": 7},
        {"max_records_per_unit": 41},
        {"critic": "transformer"},
        {"critic_steps": 0},
        {"clip_norm": 0.0},
        {"noise_multiplier": 1e6, "max_records_per_unit": 2},
        {"sampling_rate": 1.5},
        {"secret": 1},
    ],
)
def test_what_is_not_a_specification_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        mechanism(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"critic": "conv", "critic_width": 1024}, "parameters"),
        ({"critic_steps": 1000, "critic": "conv", "critic_width": 100, "capacity": 65536}, "work"),
    ],
)
def test_absurd_sizes_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        mechanism(**changes)


@pytest.mark.parametrize("count", [5, 7])
def test_another_number_of_rows_is_refused(count: int) -> None:
    with pytest.raises(MalformedRequest, match="expected 6 rows"):
        mechanism().check_samples(samples(count))
