"""The linear teacher: what it refuses, what it answers, and what it keeps between steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import cross_entropy

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.feature_nets import feature_rows
from curator.divergences.linear_softmax import LARGEST_WEIGHT
from curator.errors import MalformedRequest
from curator.mechanisms import linear_teacher
from curator.mechanisms.linear_teacher import LinearTeacher, LinearTeacherSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.outer import RIGHT_RADIUS
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches
from tests.fakes.noise import NoNoise, SeededNoise
from tests.fakes.teacher import PARAMETERS, SPACE, batch, mechanism, network, samples

MAPS: list[dict[str, Any]] = [
    {"features": "pixels", "num_features": 0},
    {"features": "scattering", "num_features": 0},
    {"features": "lenet-features"},
    {"features": "mlp-features"},
    {"features": "cnn-features"},
]
Maps = pytest.mark.parametrize("changes", MAPS, ids=lambda one: one["features"])


def answer(subject: LinearTeacher, asked: Samples, *of: RecordBatch) -> Tensor:
    state = subject.start(Private(one) for one in of)
    return release_values(subject.gradient(state, asked, NoNoise())[1])


@Maps
def test_the_answer_is_the_sum_of_all_clipped_gradients(changes: dict[str, Any]) -> None:
    """Against autograd, on the rows that the curator made."""
    subject = mechanism(**changes)
    asked, of = samples(subject, scale=5.0), (batch([0, 1, 2, 3]), batch([0, 1], seed=5))
    state, _ = subject.gradient(subject.start(map(Private, of)), asked, NoNoise())
    expected = torch.zeros_like(asked.images_ND, dtype=torch.float64)
    for inside, rows in zip(of, state.rows, strict=True):
        for row, label, counts in zip(rows, inside.labels_M, inside.mask_M, strict=True):
            moving = asked.images_ND.double().requires_grad_()
            scores = moving @ (row.double() / RIGHT_RADIUS)
            loss = cross_entropy(scores.unsqueeze(0), label.unsqueeze(0))
            (slope,) = torch.autograd.grad(loss, moving)
            expected += slope * min(1.0, 0.4 / float(slope.norm())) * counts
    torch.testing.assert_close(answer(subject, asked, *of), expected, rtol=0, atol=5e-3)
    assert float(expected.abs().max()) > 0.1


@Maps
def test_any_number_of_records_gives_the_same_shapes(changes: dict[str, Any]) -> None:
    subject = mechanism(**changes)
    asked = samples(subject)
    for of in ([batch([])], [batch([0])], [batch(list(range(8))), batch([0, 0, 1])]):
        state, release = subject.gradient(subject.start(map(Private, of)), asked, SeededNoise(1))
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        assert block.integers.shape == asked.images_ND.shape
        assert [len(rows) for rows in state.rows] == [8] * len(of)
        assert bool(release_values(release).isfinite().all())


def test_rows_are_made_once_for_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are made follows from what is asked; the answer is the same either way."""
    made: list[int] = []
    real = feature_rows

    def counted(*arguments: Any) -> Tensor:
        made.append(1)
        return real(*arguments)

    monkeypatch.setattr(linear_teacher, "feature_rows", counted)
    subject = mechanism()
    asked = samples(subject)
    other = replace(asked, weights=save(network(subject, seed=9)))
    header = save(network(subject), metadata={"by": "the same network"})
    again = replace(asked, images_ND=asked.images_ND / 2, weights=header)
    state = subject.start([Private(batch([0, 1, 2])), Private(batch([0]))])
    counts, answers = [], []
    for one in (asked, again, other, asked):
        state, release = subject.gradient(state, one, NoNoise())
        counts.append(len(made))
        answers.append(release_values(release))
    assert counts == [2, 2, 4, 6]
    assert torch.equal(answers[0], answers[3])
    assert torch.equal(answers[1], answer(subject, again, batch([0, 1, 2]), batch([0])))
    assert not torch.equal(answers[0], answers[2])


def test_a_state_is_its_records_so_that_nothing_is_lost_in_a_crash() -> None:
    subject = mechanism()
    asked, of = samples(subject), batch([0, 1, 2, 3])
    state, first = subject.gradient(subject.start([Private(of)]), asked, SeededNoise(2))
    assert subject.pack(state) == {}
    back = subject.unpack({}, [Private(of)])
    _, again = subject.gradient(back, asked, SeededNoise(2))
    assert torch.equal(release_values(first), release_values(again))


def test_a_record_that_breaks_does_not_take_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = batch([0, 1, 2])
    bad = inside.levels_MD[1].clone()
    real = LinearTeacher._integers

    def breaking(self: LinearTeacher, levels: Tensor, weights: Any) -> Tensor:
        if bool((levels == bad).all(dim=1).any()):
            raise RuntimeError
        return real(self, levels, weights)

    subject = mechanism()
    rest = answer(
        subject, samples(subject), replace(inside, units_M=torch.tensor([0, -1, 2] + [-1] * 5))
    )
    monkeypatch.setattr(LinearTeacher, "_integers", breaking)
    assert torch.equal(answer(subject, samples(subject), inside), rest)


def test_a_group_counts_as_its_mean() -> None:
    subject = mechanism(max_records_per_unit=8)
    asked, alone = samples(subject), [batch([0, -1, -1, 1]), batch([-1, 0, -1, 1])]
    parts = [answer(subject, asked, one) for one in (*alone, batch([-1, -1, -1, 1]))]
    together = answer(subject, asked, batch([0, 0, -1, 1]))
    expected = parts[2] + (parts[0] - parts[2] + parts[1] - parts[2]) / 2
    torch.testing.assert_close(together, expected, rtol=0, atol=1e-4)


@Maps
def test_class_sums_are_those_of_each_class_s_rows(changes: dict[str, Any]) -> None:
    subject = mechanism(asks="class-sums", clip_norm=1.0, **changes)
    asked, of = samples(subject), (batch([0, 1, 2, 3, 4]), batch([0, 1], seed=5))
    state, _ = subject.gradient(subject.start(map(Private, of)), asked, NoNoise())
    expected = torch.zeros_like(asked.images_ND, dtype=torch.float64)
    for inside, rows in zip(of, state.rows, strict=True):
        for row, label, counts in zip(rows, inside.labels_M, inside.mask_M, strict=True):
            expected[label] += row.double() / RIGHT_RADIUS * counts
    found = answer(subject, asked, *of)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    counts = found[:, -1] * math.sqrt(3)
    torch.testing.assert_close(counts.sum(), torch.tensor(7.0).double(), rtol=1e-3, atol=0)


def test_class_sums_are_asked_with_zeros() -> None:
    subject = mechanism(asks="class-sums", clip_norm=1.0)
    right = samples(subject)
    subject.check_samples(right)
    with pytest.raises(MalformedRequest, match="expected zeros"):
        subject.check_samples(replace(right, images_ND=right.images_ND + 1))
    with pytest.raises(ValidationError, match="clip_norm must be 1"):
        mechanism(asks="class-sums")


def test_every_step_costs_a_gaussian_release() -> None:
    subject = mechanism()
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.setup_event() == NoEvent()
    needed = subject.requirements()
    assert (needed.samples, needed.max_size, needed.numbers_per_row) == (None, 30, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"images_ND": torch.zeros(3, 7)},
        {"images_ND": torch.zeros(4, 8)},
        {"images_ND": torch.full((3, 8), 1.01 * LARGEST_WEIGHT)},
        {"images_ND": torch.full((3, 8), float("nan"))},
        {"weights": b""},
        {"weights": save({})},
        {"weights": save({"hidden.weight": torch.zeros(3)})},
    ],
)
def test_a_map_or_network_that_was_not_declared_is_refused(changes: dict[str, Any]) -> None:
    subject = mechanism()
    subject.check_samples(samples(subject))
    with pytest.raises(MalformedRequest):
        subject.check_samples(samples(subject, **changes))


def test_features_without_a_network_take_no_weights() -> None:
    subject = mechanism(features="pixels", num_features=0)
    subject.check_samples(samples(subject))
    with pytest.raises(MalformedRequest, match="weights"):
        subject.check_samples(samples(subject, weights=save({"w": torch.zeros(2)})))


@pytest.mark.parametrize(
    "changes", [{"features": "pixels"}, {"num_features": 0}, {"clip_norm": 3.0}]
)
def test_parameters_that_do_not_go_together_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LinearTeacherSpec(**(PARAMETERS | changes))


@pytest.mark.parametrize(
    ("changes", "space", "words"),
    [
        ({"features": "pixels", "num_features": 0}, {"height": 300, "width": 300}, "too many"),
        ({"features": "lenet-features"}, {"height": 3}, "at least 4x4"),
        ({"max_size": 10**9}, {}, "too much work"),
        (
            {"features": "pixels", "num_features": 0, "noise_multiplier": 3e4},
            {"height": 200, "width": 200},
            "noise_multiplier is too large",
        ),
    ],
)
def test_absurd_runs_are_refused(changes: dict[str, Any], space: Any, words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        LinearTeacher(LinearTeacherSpec(**(PARAMETERS | changes)), replace(SPACE, **space))


def test_what_a_run_keeps_is_known_before() -> None:
    """MNIST in scattering features: a few hundred MiB; a state has no more."""
    mnist = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)
    spec = mechanism(features="scattering", num_features=0, max_size=70_000).spec
    assert 500 << 20 < spec.kept_bytes(mnist) < 1 << 30
    subject = mechanism(max_size=8)
    of = batch(list(range(8)))
    state, _ = subject.gradient(subject.start([Private(of)]), samples(subject), NoNoise())
    held = [of.levels_MD, of.labels_M, of.mask_M, of.units_M, *state.rows]
    assert sum(one.nbytes for one in held) <= subject.spec.kept_bytes(SPACE)


@pytest.mark.parametrize("most", [2, 300, 1000])
def test_large_groups_keep_no_more_than_is_known_before(most: int) -> None:
    """Each of them full; batches are padded, and must be counted with their padding."""
    subject = mechanism(max_size=3, max_records_per_unit=most)
    count = 3 * most
    records = LabelledImages(
        levels=np.zeros((count, SPACE.dimension), dtype=np.uint8),
        labels=np.zeros(count, dtype=np.int64),
        groups=np.repeat(np.arange(3), most),
        max_per_group=most,
    )
    batches = private_batches(subject, PrivateRecords(records, max_units=3), NoNoise())
    state, _ = subject.gradient(subject.start(batches), samples(subject), NoNoise())
    kept = [sealed.unseal() for sealed in state.batches]
    assert sum(int(one.mask_M.sum()) for one in kept) == count
    assert sum(len(one.mask_M) for one in kept) <= 2 * count + 2 * max(most, 512)
    tensors = [
        *state.rows,
        *(t for one in kept for t in (one.levels_MD, one.labels_M, one.mask_M, one.units_M)),
    ]
    assert sum(one.nbytes for one in tensors) <= subject.spec.kept_bytes(SPACE)


def test_the_noise_is_the_same_whatever_the_network_is() -> None:
    def noise_of(asked: Samples) -> Tensor:
        release: Release = subject.gradient(subject.start([]), asked, SeededNoise(4))[1]
        return release_values(release)

    subject = mechanism()
    assert torch.equal(noise_of(samples(subject)), noise_of(samples(subject, scale=0.1)))
