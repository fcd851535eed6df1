"""PATE-GAN: what is released, what it costs, what state and answers may depend on."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.errors import MalformedRequest
from curator.mechanisms import pate_gan
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    StatefulMechanism,
)
from curator.mechanisms.pate_gan import PateGan, PateGanSpec, PateGanState
from curator.mechanisms.pate_gan_student import Student
from curator.mechanisms.shard_networks import ShardNetworks
from curator.privacy.batches import Samples
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer import votes
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms.silent import SilentNoise
from tests.unit.curator.mechanisms.test_teachers import SPACE, TEACHERS, records

PARAMETERS: dict[str, Any] = TEACHERS | {
    "num_labelled": 3,
    "labels": "relative",
    "reach": 0.5,
    "student": "mlp",
    "student_width": 8,
    "student_seed": 2,
    "student_batch": 5,
    "student_steps": 4,
    "student_learning_rate": 0.01,
    "pool_steps": 2,
    "residual": 0.1,
}
LABELS = pytest.mark.parametrize("labels", ["absolute", "relative"])


def mechanism(**changes: object) -> PateGan:
    return PateGan(PateGanSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 4, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def started(subject: PateGan, count: int = 30) -> PateGanState:
    return subject.start(records(count).batches(8))


def rows(release: Release) -> Tensor:
    (block,) = release.blocks
    assert isinstance(block, FloatBlock)
    return block.values


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[LatticeBlock]:
    """Collect what goes from teachers to the student."""
    seen: list[LatticeBlock] = []

    def watched(*arguments: Any, **named: Any) -> Release:
        release = votes.release_votes(*arguments, **named)
        seen.append(release.blocks[0])  # type: ignore[arg-type]
        return release

    monkeypatch.setattr(pate_gan, "release_votes", watched)
    return seen


def test_is_a_stateful_mechanism_that_charges_each_step_without_sampling() -> None:
    subject = mechanism()
    kinds = (StatefulMechanism, SampledMechanism, ReleasedOnceMechanism)
    assert [isinstance(subject, kind) for kind in kinds] == [True, False, False]
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.rows_per_step == 4
    assert subject.durability == "every-step"


@LABELS
def test_counts_are_votes_of_teachers(labels: str, counted: list[LatticeBlock]) -> None:
    subject, noise = mechanism(labels=labels), SilentNoise()
    _, release = subject.gradient(started(subject), samples(), noise)
    assert rows(release).shape == (4, 6)
    assert noise.num_draws == 2 * 3
    (block,) = counted
    assert block.integers.shape == (3, 1)
    found = block.integers.double() * block.grid
    assert torch.equal(found, found.round())
    assert 0 <= float(found.min()) <= float(found.max()) <= 5


@LABELS
def test_the_answer_follows_from_the_counts_alone(
    labels: str, counted: list[LatticeBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other records, the same released counts: the same answers to the last bit."""
    subject = mechanism(labels=labels)
    answers, states = [], [started(subject), started(subject, 7)]
    counts = [torch.tensor([[4], [0], [2]]), torch.tensor([[-3], [11], [1]])]
    for step, given in enumerate(counts):
        monkeypatch.setattr(votes, "_counts", lambda compute, _, g=given: (list(compute()), g)[1])
        for number, state in enumerate(states):
            noise = SeededNoise(step)
            states[number], release = subject.gradient(state, samples(seed=step), noise)
            answers.append(rows(release))
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[2], answers[3])
    assert not torch.equal(answers[0], answers[2])
    first, second = (state.taught.ensemble.critics["score"] for state in states)
    assert not torch.equal(first, second)


def test_a_student_remembers_the_last_steps(counted: list[LatticeBlock]) -> None:
    subject = mechanism()
    state = started(subject)
    sizes = []
    for step in range(4):
        state, _ = subject.gradient(state, samples(seed=step), SilentNoise())
        sizes.append(len(state.studied.pool.shares_N))
    assert sizes == [3, 6, 6, 6]
    assert state.studied.network.num_updates == 16
    last = counted[-1].integers.double() * counted[-1].grid / 5
    assert torch.equal(state.studied.pool.shares_N[3:].cpu(), last[:, 0].float())


@LABELS
def test_answer_and_surprise_together_are_the_slope_that_teachers_see(labels: str) -> None:
    """Of 4,000 labels; 5.4 standard errors of an entry are below .12 of how far both are apart."""
    changes = {"num_samples": 4_000, "num_labelled": 4_000, "labels": labels, "reach": 0.05}
    small = {"student_learning_rate": 1e-9, "student_steps": 1, "pool_steps": 1, "residual": 1.0}
    student = Student(PateGanSpec(**(PARAMETERS | changes | small)), SPACE)
    images = torch.tensor([0.5, -0.4, 0.3, -0.2, 0.5, -0.3]).expand(4_000, 6)  # off the kinks
    onehot = torch.eye(3)[torch.zeros(4_000).long()]
    slope = torch.tensor([0.6, -0.8, 0.0, 0.3, 0.0, -0.5])
    asked = student.questions(0, images, onehot)
    logits = (asked.firsts_ND - images) @ slope
    if asked.seconds_ND is not None:
        logits = logits - (asked.seconds_ND - images) @ slope
    counts = 5 * logits.sigmoid().unsqueeze(1).double()
    studied, surprise = student.study(student.begin(), asked, counts)
    answer = student.gradients(studied, surprise, images, onehot).mean(dim=0)
    alone = student.gradients(studied, torch.zeros(4_000), images, onehot).mean(dim=0)
    apart = float((alone + slope).norm())  # the student is untaught
    torch.testing.assert_close(answer, -slope, rtol=0, atol=0.12 * apart)
    assert apart > 1.0


@LABELS
def test_descent_makes_images_like_records(labels: str) -> None:
    """Records are white where the first pixel is not; after a while the answer says so."""
    import numpy as np

    from curator.data.images import LabelledImages
    from curator.data.sampling import PrivateRecords

    subject = mechanism(labels=labels, student_steps=40, reach=0.7, teacher_steps=20, pool_steps=8)
    levels = np.full((30, 1, 2, 3), 16, dtype=np.uint8)
    levels[:, 0, 0, 0] = np.arange(30) % 17  # so that they are in different shards
    white = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(30, dtype=np.int64)))
    state = subject.start(white.batches(8))
    black = Samples(images_ND=-0.5 * torch.ones(4, 6), labels_N=torch.zeros(4).long())
    for _ in range(7):
        state, _ = subject.gradient(state, black, SilentNoise())
    _, release = subject.gradient(state, black, SilentNoise())
    assert float((rows(release)[:, 1:] < 0).float().mean()) > 0.9


def test_the_same_transcript_gives_the_same_state() -> None:
    subject = mechanism()
    answers = []
    for _ in range(2):
        state = started(subject)
        state, _ = subject.gradient(state, samples(seed=0), SeededNoise(0))
        _, release = subject.gradient(state, samples(seed=1), SeededNoise(1))
        answers.append(rows(release))
    assert torch.equal(*answers)
    other = mechanism(student_seed=3)
    _, release = other.gradient(started(other), samples(), SeededNoise(0))
    assert not torch.equal(rows(release), answers[0])


@LABELS
def test_a_state_is_packed_and_unpacked_bit_for_bit(labels: str) -> None:
    subject = mechanism(labels=labels)
    state = started(subject)
    for step in range(3):
        tensors = subject.pack(state)
        assert all(value.device.type == "cpu" for value in tensors.values())
        back = subject.unpack(tensors, records().batches(8))
        ends = [
            subject.gradient(one, samples(seed=step), SeededNoise(step)) for one in (state, back)
        ]
        assert torch.equal(rows(ends[0][1]), rows(ends[1][1]))
        packed = [subject.pack(after) for after, _ in ends]
        assert packed[0].keys() == packed[1].keys()
        assert all(torch.equal(packed[0][name], packed[1][name]) for name in packed[0])
        state = ends[1][0]


class OnlyNoise(SilentNoise):
    def uniform_words(self, num_words: int) -> Tensor:
        pytest.fail("a secret word was drawn")


def test_only_noise_is_taken_from_the_secret_source() -> None:
    subject = mechanism()
    subject.gradient(started(subject), samples(), OnlyNoise())


@pytest.mark.parametrize("count", [0, 1, 40])
def test_any_number_of_records_gives_the_same_shapes(
    count: int, counted: list[LatticeBlock]
) -> None:
    subject, noise = mechanism(shard_capacity=3, labels="absolute"), SilentNoise()
    _, release = subject.gradient(started(subject, count), samples(), noise)
    assert rows(release).shape == (4, 6)
    assert noise.num_draws == 6
    assert count > 0 or not counted[0].integers.any()


def test_a_broken_computation_is_answered_like_any_other(
    monkeypatch: pytest.MonkeyPatch, counted: list[LatticeBlock]
) -> None:
    def fail(*_: object) -> Any:
        raise MemoryError

    subject = mechanism()
    state = started(subject)
    monkeypatch.setattr(ShardNetworks, "trained", fail)
    after, release = subject.gradient(state, samples(), SilentNoise())
    assert not counted[0].integers.any()
    assert rows(release).shape == (4, 6)
    assert after.taught is state.taught
    assert after.studied.num_steps == 1


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
        PateGanSpec(**{key: value for key, value in PARAMETERS.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, 0) for name in ("num_teachers", "shard_capacity", "num_samples", "num_labelled")],
        *[(name, math.nan) for name in ("reach", "noise_multiplier", "student_learning_rate")],
        ("num_labelled", 5),
        ("num_teachers", 4097),
        ("reach", 0.0),  # of relative labels
        ("labels", "noisy"),
        ("student", "resnet"),
        ("pool_steps", 10_001),
        ("residual", -0.1),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        PateGanSpec(**(PARAMETERS | {name: value}))


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"num_samples": 4096, "num_labelled": 4096, "pool_steps": 10_000}, "pool_steps"),
        ({"student_batch": 4096, "student_steps": 1000, "student_width": 1024}, "student_steps"),
    ],
)
def test_sizes_that_are_absurd_together_are_refused(changes: dict[str, Any], detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism(**changes)
