"""G-PATE: what is released, what it costs, what state and answers may depend on."""

from __future__ import annotations

import math
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
from curator.errors import MalformedRequest
from curator.mechanisms import g_pate
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    StatefulMechanism,
)
from curator.mechanisms.g_pate import GPate, GPateSpec
from curator.mechanisms.shard_networks import NetworkState, ShardNetworks
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import averaged, votes
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise
from tests.unit.curator.mechanisms.test_teachers import SPACE, TEACHERS, equal, records

PARAMETERS: dict[str, Any] = TEACHERS | {
    "num_projections": 2,
    "projection_seed": 3,
    "aggregation": "votes",
    "num_bins": 4,
    "clip_norm": 1.5,
}
MEAN: dict[str, Any] = {"aggregation": "mean", "num_bins": 0}
BOTH = pytest.mark.parametrize("changes", [{}, MEAN], ids=["votes", "mean"])


def mechanism(**changes: object) -> GPate:
    return GPate(GPateSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 4, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def started(subject: GPate, count: int = 30) -> NetworkState:
    return subject.start(records(count).batches(8))


def rows(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, FloatBlock)
    return block.values


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[LatticeBlock]:
    """Collect what the sanitizer released, before it is taken back to pixels."""
    found: list[LatticeBlock] = []

    def watching(real: Any) -> Any:
        def watched(*arguments: Any, **named: Any) -> Release:
            release: Release = real(*arguments, **named)
            found.append(release.blocks[0])  # type: ignore[arg-type]
            return release

        return watched

    monkeypatch.setattr(g_pate, "release_votes", watching(votes.release_votes))
    monkeypatch.setattr(g_pate, "release_critic_mean", watching(averaged.release_critic_mean))
    return found


@BOTH
def test_is_a_stateful_mechanism_that_charges_each_step_without_sampling(
    changes: dict[str, Any],
) -> None:
    subject = mechanism(**changes)
    kinds = (StatefulMechanism, SampledMechanism, ReleasedOnceMechanism)
    assert [isinstance(subject, kind) for kind in kinds] == [True, False, False]
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.rows_per_step == 4
    assert subject.durability == "replay"


def test_counts_are_votes_on_every_projection(seen: list[LatticeBlock]) -> None:
    subject, noise = mechanism(), SilentNoise()
    state = started(subject)
    assert int((state.shards.counts_K > 0).sum()) == 5
    _, release = subject.gradient(state, samples(), noise)
    assert rows(release).shape == (4, 6)
    assert noise.num_draws == 2 * 4 * 2 * 4
    counts = seen[0].integers.double() * seen[0].grid
    assert counts.shape == (8, 4)
    assert torch.equal(counts.sum(dim=1), torch.full((8,), 5.0, dtype=torch.float64))


def test_the_mean_is_that_of_clipped_directions(seen: list[LatticeBlock]) -> None:
    subject, noise = mechanism(**MEAN), SilentNoise()
    _, release = subject.gradient(started(subject), samples(), noise)
    assert rows(release).shape == (4, 6)
    assert noise.num_draws == 2 * 4 * 2
    values = seen[0].integers.double() * seen[0].grid
    assert values.shape == (4, 2)
    assert 0 < float(values.norm(dim=1).max()) <= 1.5


@BOTH
def test_the_answer_follows_from_what_was_released(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other records, the same released numbers: the same answers to the last bit."""
    subject = mechanism(**changes)
    size = (4, 2) if changes else (8, 4)
    given = torch.arange(size[0] * size[1]).reshape(size) * 1_000_003 % 4_099
    monkeypatch.setattr(votes, "_counts", lambda compute, _: (list(compute()), given)[1])
    monkeypatch.setattr(averaged, "_sum_of_points", lambda compute, *_: (list(compute()), given)[1])
    found = [
        rows(subject.gradient(started(subject, count), samples(), SeededNoise(1))[1])
        for count in (30, 7)
    ]
    assert torch.equal(*found)
    assert found[0].any()


@BOTH
def test_descent_makes_images_like_records(changes: dict[str, Any]) -> None:
    subject = mechanism(**changes, teacher_steps=80, num_projections=40)
    levels = np.full((30, 1, 2, 3), 16, dtype=np.uint8)
    levels[:, 0, 0, 0] = np.arange(30) % 17  # so that they are in different shards
    white = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(30, dtype=np.int64)))
    black = Samples(images_ND=-torch.ones(4, 6), labels_N=torch.zeros(4).long())
    _, release = subject.gradient(subject.start(white.batches(8)), black, SilentNoise())
    assert float(rows(release)[:, 1:].mean()) < 0
    assert float((rows(release)[:, 1:] < 0).float().mean()) > 0.8


def test_projections_are_fresh_and_public() -> None:
    subject = mechanism()
    first, second = subject._projection(0), subject._projection(1)
    assert first.shape == (6, 2)
    assert torch.equal(first, mechanism()._projection(0))
    assert not torch.equal(first, second)
    assert not torch.equal(first, mechanism(projection_seed=4)._projection(0))


@BOTH
def test_the_state_does_not_depend_on_the_noise(changes: dict[str, Any]) -> None:
    subject = mechanism(**changes)
    states = [started(subject), started(subject)]
    for step in range(2):
        states = [
            subject.gradient(state, samples(seed=step), SeededNoise(number))[0]
            for number, state in enumerate(states)
        ]
    first, second = (state.ensemble for state in states)
    assert equal(first, second, list(range(5)))
    assert [state.num_steps for state in states] == [2, 2]


@BOTH
def test_a_state_is_packed_and_unpacked_bit_for_bit(changes: dict[str, Any]) -> None:
    subject = mechanism(**changes)
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


@BOTH
def test_only_noise_is_taken_from_the_secret_source(changes: dict[str, Any]) -> None:
    subject = mechanism(**changes)
    subject.gradient(started(subject), samples(), OnlyNoise())


@BOTH
@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_records_gives_the_same_shapes(
    changes: dict[str, Any], count: int, seen: list[LatticeBlock]
) -> None:
    subject, noise = mechanism(**changes, shard_capacity=3), SilentNoise()
    _, release = subject.gradient(started(subject, count), samples(), noise)
    assert rows(release).shape == (4, 6)
    assert noise.num_draws == 2 * seen[0].integers.numel()
    assert bool(seen[0].integers.any()) == (count > 0)


@BOTH
def test_a_broken_computation_is_answered_like_any_other(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seen: list[LatticeBlock]
) -> None:
    def fail(*_: object) -> Any:
        raise MemoryError

    subject = mechanism(**changes)
    state = started(subject)
    monkeypatch.setattr(ShardNetworks, "trained", fail)
    after, release = subject.gradient(state, samples(), SilentNoise())
    assert not seen[0].integers.any()
    assert rows(release).shape == (4, 6)
    assert after.ensemble is state.ensemble


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
        GPateSpec(**{key: value for key, value in PARAMETERS.items() if key != name})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_projections": 0}, "num_projections"),
        ({"num_bins": 1}, "num_bins"),
        ({"num_bins": 1025}, "num_bins"),
        (MEAN | {"num_bins": 2}, "num_bins must be 0"),
        ({"clip_norm": math.nan}, "clip_norm"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"aggregation": "median"}, "aggregation"),
        ({"num_samples": 1 << 16, "num_projections": 1024}, "too many voters"),
    ],
)
def test_parameters_out_of_range_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        GPateSpec(**(PARAMETERS | changes))


def test_sizes_that_are_absurd_together_are_refused() -> None:
    with pytest.raises(MalformedRequest, match="num_bins: too much work"):
        mechanism(num_teachers=4096, num_samples=200, num_projections=20, num_bins=1000)
    space = ImageSpace(channels=1, height=512, width=512, max_level=16, num_classes=3)
    with pytest.raises(MalformedRequest, match="num_projections: too many"):
        GPate(GPateSpec(**(PARAMETERS | {"num_projections": 100})), space)
