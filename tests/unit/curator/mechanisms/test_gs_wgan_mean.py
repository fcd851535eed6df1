"""GS-WGAN with averaged critics: what is released, what it costs, what a state may depend on."""

from __future__ import annotations

import copy
import math
import pickle  # noqa: TID251 - to see it refused
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
from curator.divergences import critic_training
from curator.divergences.adam import Ensemble
from curator.errors import MalformedRequest
from curator.mechanisms import gs_wgan_mean
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    StatefulMechanism,
)
from curator.mechanisms.gs_wgan_mean import GsWganMean, GsWganMeanSpec
from curator.mechanisms.shard_networks import NetworkState, onehot
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.private import SealedError
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import FINE_STD
from tests.unit.curator.mechanisms.silent import SilentNoise

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
PARAMETERS: dict[str, Any] = {
    "num_critics": 5,
    "shard_capacity": 16,
    "num_samples": 4,
    "clip_norm": 0.5,
    "noise_multiplier": 1.1,
    "critic": "mlp",
    "critic_width": 8,
    "critic_seed": 1,
    "critic_batch": 6,
    "critic_steps": 2,
    "warm_start_steps": 3,
    "critic_learning_rate": 0.01,
    "gradient_penalty": 10.0,
}


def mechanism(**changes: object) -> GsWganMean:
    return GsWganMean(GsWganMeanSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 4, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def records(count: int = 30) -> PrivateRecords:
    generator = np.random.default_rng(2)
    levels = generator.integers(0, 17, (count, 1, 2, 3), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(count) % 3), 40)


def started(subject: GsWganMean, count: int = 30) -> NetworkState:
    return subject.start(records(count).batches(8))


def integers(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def test_is_a_stateful_mechanism_that_charges_each_step_without_sampling() -> None:
    subject = mechanism()
    kinds = (StatefulMechanism, SampledMechanism, ReleasedOnceMechanism)
    assert [isinstance(subject, kind) for kind in kinds] == [True, False, False]
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.rows_per_step == 4


@pytest.mark.parametrize("critic", ["mlp", "conv"])
def test_rows_are_the_average_of_clipped_gradients(critic: str) -> None:
    subject, noise = mechanism(critic=critic), SilentNoise()
    state, release = subject.gradient(started(subject), samples(), noise)
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    assert block.integers.shape == (4, 6)
    assert noise.num_draws == 2 * 24
    parts = list(
        critic_training.image_gradients(
            subject.networks.shape,
            state.ensemble.critics,
            samples().images_ND,
            onehot(samples().labels_N, subject.networks.space),
        )
    )
    gradients = torch.cat(parts).double()
    lengths = gradients.norm(dim=2, keepdim=True)
    assert float(lengths.max()) > 0.5  # something is clipped
    expected = (gradients * (0.5 / lengths).clamp(max=1)).mean(dim=0)
    torch.testing.assert_close(block.integers.double() * block.grid, expected, rtol=0, atol=1e-5)
    std = FINE_STD * block.grid
    assert 1 <= std / (1.1 * 2 * 0.5 * math.sqrt(4) / 5) < 1 + 1e-6


def test_critics_learn_to_tell_records_from_samples() -> None:
    subject = mechanism(critic_steps=80)
    levels = np.full((30, 1, 2, 3), 16, dtype=np.uint8)
    levels[:, 0, 0, 0] = np.arange(30) % 17  # so that they are in different shards
    white = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(30, dtype=np.int64)))
    state = subject.start(white.batches(8))
    black = Samples(images_ND=-torch.ones(4, 6), labels_N=torch.zeros(4, dtype=torch.int64))
    _, release = subject.gradient(state, black, SilentNoise())
    assert bool((integers(release)[:, 1:] < 0).all())  # descent makes them whiter


def test_the_first_step_warms_up() -> None:
    subject = mechanism()
    state = started(subject)
    updates = []
    for _ in range(3):
        state, _ = subject.gradient(state, samples(), SilentNoise())
        updates.append(state.ensemble.num_updates)
    assert updates == [5, 7, 9]


def test_the_same_transcript_gives_the_same_state() -> None:
    subject = mechanism()
    releases = []
    for _ in range(2):
        state = started(subject)
        for seed in range(2):
            state, _ = subject.gradient(state, samples(seed=seed), SilentNoise())
        _, release = subject.gradient(state, samples(seed=2), SilentNoise())
        releases.append(integers(release))
    assert torch.equal(*releases)
    other = mechanism(critic_seed=2)
    _, release = other.gradient(started(other), samples(), SilentNoise())
    assert not torch.equal(integers(release), releases[0])


class OnlyNoise(SilentNoise):
    def uniform_words(self, num_words: int) -> Tensor:
        pytest.fail("a secret word was drawn")


def test_only_noise_is_taken_from_the_secret_source() -> None:
    subject = mechanism()
    subject.gradient(started(subject), samples(), OnlyNoise())


@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_records_gives_the_same_shapes(count: int) -> None:
    subject, noise = mechanism(shard_capacity=3), SilentNoise()
    state, release = subject.gradient(started(subject, count), samples(), noise)
    assert integers(release).shape == (4, 6)
    assert noise.num_draws == 48
    assert state.ensemble.critics["weight0"].shape == (5, 8, 6)
    assert (integers(release).count_nonzero() == 0) == (count == 0)


def test_a_critic_that_breaks_does_not_take_others_along() -> None:
    """Weights of one critic become NaN: all others, and their parts, keep every bit."""
    subject = mechanism(num_critics=3)
    state, _ = subject.gradient(started(subject), samples(), SilentNoise())
    for value in (math.nan, math.inf, 1e30):
        broken = copy.copy(state.ensemble.critics)
        broken["weight0"] = broken["weight0"].clone()
        broken["weight0"][1] = value
        spoilt = NetworkState(
            shards=state.shards,
            ensemble=Ensemble(
                critics=broken,
                means=state.ensemble.means,
                squares=state.ensemble.squares,
                num_updates=state.ensemble.num_updates,
            ),
        )
        sound, _ = subject.gradient(state, samples(seed=1), SilentNoise())
        after, release = subject.gradient(spoilt, samples(seed=1), SilentNoise())
        for name, rows in sound.ensemble.critics.items():
            assert torch.equal(rows[[0, 2]], after.ensemble.critics[name][[0, 2]])
        assert integers(release).count_nonzero() > 0


def test_a_broken_computation_is_answered_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Any:
        raise MemoryError

    subject = mechanism()
    state = started(subject)
    monkeypatch.setattr(gs_wgan_mean, "placed_update", fail)
    after, release = subject.gradient(state, samples(), SilentNoise())
    assert integers(release).count_nonzero() == 0
    assert after is state


def test_a_state_cannot_be_printed_or_pickled() -> None:
    state = started(mechanism())
    assert repr(state) == "NetworkState(<sealed>)"
    assert "tensor" not in repr(state.ensemble) + repr(state.shards)
    for private in (state, state.shards):
        with pytest.raises(SealedError):
            pickle.dumps(private)
        with pytest.raises(SealedError):
            copy.deepcopy(private)


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (samples(3), "4 rows"),
        (samples(5), "4 rows"),
        (Samples(images_ND=torch.zeros(4, 5), labels_N=torch.zeros(4).long()), "6 pixels"),
        (Samples(images_ND=torch.zeros(4, 6), labels_N=torch.full((4,), 3)), "below 3"),
    ],
)
def test_undeclared_samples_are_refused(changed: Samples, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism().check_samples(changed)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_no_parameter_has_a_default(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        GsWganMeanSpec(**{key: value for key, value in PARAMETERS.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, 0) for name in ("num_critics", "shard_capacity", "num_samples", "critic_steps")],
        *[(name, math.nan) for name in ("clip_norm", "noise_multiplier", "gradient_penalty")],
        ("num_critics", 4097),
        ("noise_multiplier", 1e6),
        ("critic", "resnet"),
        ("critic_learning_rate", 0.0),
        ("critic_width", 1025),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        GsWganMeanSpec(**(PARAMETERS | {name: value}))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_critics": 4096, "shard_capacity": 1 << 16},
        {"num_critics": 4096, "critic_width": 1024},
        {"num_critics": 4096, "critic_steps": 100, "critic_batch": 4096, "critic_width": 100},
        {"num_critics": 4096, "warm_start_steps": 10_000, "critic_batch": 200, "critic_width": 100},
    ],
)
def test_sizes_that_are_absurd_together_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest, match="too m"):
        mechanism(**changes)
