"""Adversarial DP-Sinkhorn: what is released, what it costs, what a state may depend on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.feature_extractors import Generated, transport_gradients
from curator.errors import MalformedRequest
from curator.mechanisms import adversarial_dp_sinkhorn
from curator.mechanisms.adversarial_dp_sinkhorn import (
    AdversarialDpSinkhorn,
    AdversarialDpSinkhornSpec,
)
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    StatefulMechanism,
)
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.release import FloatBlock, Release
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise
from tests.unit.curator.mechanisms.test_teachers import SPACE, equal, records

PARAMETERS: dict[str, Any] = {
    "num_extractors": 5,
    "shard_capacity": 16,
    "num_samples": 4,
    "num_debias": 2,
    "clip_norm": 0.5,
    "noise_multiplier": 1.1,
    "reg": 0.5,
    "label_scale": 2.0,
    "feature_scale": 1.0,
    "extractor": "mlp",
    "extractor_width": 8,
    "extractor_seed": 1,
    "extractor_steps": 2,
    "extractor_learning_rate": 0.01,
}
KINDS = pytest.mark.parametrize("extractor", ["mlp", "conv"])


def mechanism(**changes: object) -> AdversarialDpSinkhorn:
    return AdversarialDpSinkhorn(AdversarialDpSinkhornSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 6, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def started(subject: AdversarialDpSinkhorn, count: int = 30) -> NetworkState:
    return subject.start(records(count).batches(8))


def rows(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, FloatBlock)
    return block.values


def test_is_a_stateful_mechanism_that_charges_each_step_without_sampling() -> None:
    subject = mechanism()
    kinds = (StatefulMechanism, SampledMechanism, ReleasedOnceMechanism)
    assert [isinstance(subject, kind) for kind in kinds] == [True, False, False]
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.rows_per_step == 6
    assert subject.durability == "replay"


@KINDS
def test_the_whole_gradient_of_an_extractor_is_one_vector(extractor: str) -> None:
    subject, noise = mechanism(extractor=extractor), SilentNoise()
    state, release = subject.gradient(started(subject), samples(), noise)
    assert noise.num_draws == 2 * 36
    what = Generated(images_ND=samples().images_ND, labels_N=samples().labels_N, num_samples=4)
    data = subject._own_records(state.shards), what
    parts = transport_gradients(subject.networks.shape, subject._cost, state.ensemble.critics, data)
    gradients = torch.cat(list(parts)).double()
    assert bool(gradients[:, 4:].any())  # rows of the self term depend on extractors
    lengths = gradients.flatten(1).norm(dim=1).reshape(-1, 1, 1)
    assert float(lengths.max()) > 0.5  # something is clipped
    expected = (gradients * (0.5 / lengths).clamp(max=1)).mean(dim=0)
    torch.testing.assert_close(rows(release).double(), expected, rtol=0, atol=1e-5)


def test_the_noise_is_worth_what_is_charged() -> None:
    """7,200 draws; a false alarm has probability below 1e-7 (5.4 standard errors)."""
    subject = mechanism(noise_multiplier=50.0, extractor_steps=0)
    state = started(subject)
    drawn = [
        rows(subject.gradient(state, samples(), SeededNoise(seed))[1])
        - rows(subject.gradient(state, samples(), SilentNoise())[1])
        for seed in range(200)
    ]
    std = float(torch.stack(drawn).double().std())
    assert std == pytest.approx(50.0 * 2 * 0.5 / 5, rel=5.4 / math.sqrt(2 * 7_200))


def test_descent_makes_images_like_records() -> None:
    subject = mechanism()
    levels = np.full((30, 1, 2, 3), 16, dtype=np.uint8)
    levels[:, 0, 0, 0] = np.arange(30) % 17  # so that they are in different shards
    white = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(30, dtype=np.int64)))
    black = Samples(images_ND=-torch.ones(6, 6), labels_N=torch.zeros(6).long())
    _, release = subject.gradient(subject.start(white.batches(8)), black, SilentNoise())
    assert bool((rows(release)[:4, 1:] < 0).all())


def test_extractors_learn_at_every_step() -> None:
    subject = mechanism()
    state = started(subject)
    updates = []
    for seed in range(3):
        state, _ = subject.gradient(state, samples(seed=seed), SilentNoise())
        updates.append(state.ensemble.num_updates)
    assert updates == [2, 4, 6]
    fixed = mechanism(extractor_steps=0)
    same, _ = fixed.gradient(started(fixed), samples(), SilentNoise())
    assert equal(same.ensemble, started(fixed).ensemble, list(range(5)))


@KINDS
def test_an_extractor_that_breaks_does_not_take_others_along(extractor: str) -> None:
    subject = mechanism(extractor=extractor)
    state, _ = subject.gradient(started(subject), samples(), SilentNoise())
    for value in (math.nan, math.inf, 1e30):
        weights = {name: rows.clone() for name, rows in state.ensemble.critics.items()}
        weights["weight0"][1] = value
        ensemble = replace(state.ensemble, critics=weights)
        spoilt = NetworkState(shards=state.shards, ensemble=ensemble)
        sound, _ = subject.gradient(state, samples(seed=1), SilentNoise())
        after, release = subject.gradient(spoilt, samples(seed=1), SilentNoise())
        assert equal(sound.ensemble, after.ensemble, [0, 2, 3, 4])
        assert rows(release).any()


@KINDS
def test_the_state_does_not_depend_on_the_noise(extractor: str) -> None:
    subject = mechanism(extractor=extractor)
    states = [started(subject), started(subject)]
    for step in range(2):
        states = [
            subject.gradient(state, samples(seed=step), SeededNoise(number))[0]
            for number, state in enumerate(states)
        ]
    first, second = (state.ensemble for state in states)
    assert equal(first, second, list(range(5)))


@KINDS
def test_a_state_is_packed_and_unpacked_bit_for_bit(extractor: str) -> None:
    subject = mechanism(extractor=extractor)
    state, _ = subject.gradient(started(subject), samples(), SilentNoise())
    tensors = subject.pack(state)
    assert all(value.device.type == "cpu" for value in tensors.values())
    back = subject.unpack(tensors, records().batches(8))
    ends = [subject.gradient(one, samples(seed=1), SeededNoise(1)) for one in (state, back)]
    assert torch.equal(rows(ends[0][1]), rows(ends[1][1]))
    packed = [subject.pack(after) for after, _ in ends]
    assert packed[0].keys() == packed[1].keys()
    assert all(torch.equal(packed[0][name], packed[1][name]) for name in packed[0])


class OnlyNoise(SilentNoise):
    def uniform_words(self, num_words: int) -> Tensor:
        pytest.fail("a secret word was drawn")


def test_only_noise_is_taken_from_the_secret_source() -> None:
    subject = mechanism()
    subject.gradient(started(subject), samples(), OnlyNoise())


@KINDS
@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_records_gives_the_same_shapes(extractor: str, count: int) -> None:
    subject, noise = mechanism(shard_capacity=3, extractor=extractor), SilentNoise()
    state, release = subject.gradient(started(subject, count), samples(), noise)
    assert rows(release).shape == (6, 6)
    assert noise.num_draws == 72
    assert state.ensemble.critics["weight0"].shape[0] == 5
    assert bool(rows(release).any()) == (count > 0)


def test_a_broken_computation_is_answered_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Any:
        raise MemoryError

    subject = mechanism()
    state = started(subject)
    monkeypatch.setattr(adversarial_dp_sinkhorn, "ascend", fail)
    after, release = subject.gradient(state, samples(), SilentNoise())
    assert rows(release).shape == (6, 6)
    assert not rows(release).any()
    assert after is state


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (samples(5), "6 rows"),
        (samples(7), "6 rows"),
        (Samples(images_ND=torch.zeros(6, 5), labels_N=torch.zeros(6).long()), "6 pixels"),
        (Samples(images_ND=torch.zeros(6, 6), labels_N=torch.full((6,), 3)), "below 3"),
    ],
)
def test_undeclared_samples_are_refused(changed: Samples, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism().check_samples(changed)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_no_parameter_has_a_default(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        AdversarialDpSinkhornSpec(**{k: v for k, v in PARAMETERS.items() if k != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, 0) for name in ("num_extractors", "shard_capacity", "num_samples")],
        *[(name, math.nan) for name in ("clip_norm", "noise_multiplier", "feature_scale")],
        ("num_debias", 5),
        ("reg", 0.0),
        ("extractor", "resnet"),
        ("extractor_steps", 101),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        AdversarialDpSinkhornSpec(**(PARAMETERS | {name: value}))


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"num_extractors": 4096, "shard_capacity": 1 << 16}, "num_extractors, shard_capacity"),
        ({"num_extractors": 4096, "extractor_width": 1024}, "extractor_width"),
        ({"num_samples": 1 << 16}, "too many pairs"),
        ({"num_extractors": 4096, "num_samples": 900, "extractor_steps": 100}, "extractor_steps"),
    ],
)
def test_sizes_that_are_absurd_together_are_refused(changes: dict[str, Any], detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism(**changes)


def test_steps_of_too_many_coordinates_are_refused() -> None:
    space = ImageSpace(channels=1, height=256, width=256, max_level=16, num_classes=3)
    spec = AdversarialDpSinkhornSpec(**(PARAMETERS | {"num_samples": 300, "extractor_width": 1}))
    with pytest.raises(MalformedRequest, match="num_samples: too many images"):
        AdversarialDpSinkhorn(spec, space)
