"""Brute force over neighbouring data sets: a unit moves one teacher, and votes by their bound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.mechanisms import pate_gan
from curator.mechanisms.pate_gan import PateGan, PateGanSpec
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import votes
from curator.sanitizer.averaged import FINE_STD
from tests.fakes.noise import NoNoise
from tests.property.test_critic_sensitivity import Person, people_strategy, person_strategy, private

SPACE = ImageSpace(channels=1, height=2, width=2, max_level=3, num_classes=2)
Z, K, STEPS = 1.1, 4, 2
PARAMETERS: dict[str, Any] = {
    "num_teachers": K,
    "num_samples": 3,
    "noise_multiplier": Z,
    "teacher_width": 4,
    "teacher_batch": 3,
    "teacher_steps": 2,
    "warm_start_steps": 2,
    "teacher_learning_rate": 0.3,  # teachers that move a lot
    "gradient_penalty": 1.0,
    "num_labelled": 3,
    "reach": 0.5,
    "student": "mlp",
    "student_width": 2,
    "student_seed": 1,
    "student_batch": 2,
    "student_steps": 1,
    "student_learning_rate": 0.1,
    "pool_steps": 1,
    "residual": 0.1,
}


@pytest.fixture
def given_counts(monkeypatch: pytest.MonkeyPatch) -> list[LatticeBlock]:
    """Collect what goes from teachers to the student."""
    seen: list[LatticeBlock] = []

    def watched(*arguments: Any, **named: Any) -> Release:
        release = votes.release_votes(*arguments, **named)
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        seen.append(block)
        return release

    monkeypatch.setattr(pate_gan, "release_votes", watched)
    return seen


def samples(step: int) -> Samples:
    """Return the samples of a step, the same whatever was answered."""
    images = torch.rand(3, 4, generator=torch.Generator().manual_seed(step)) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.tensor([0, 1, 0]))


def changed_teachers(first: NetworkState, second: NetworkState) -> set[int]:
    parts = [
        (getattr(one, name) for one in (first.ensemble, second.ensemble))
        for name in ("critics", "means", "squares")
    ]
    changed = {
        k
        for one, other in parts
        for name in one
        for k in range(K)
        if not torch.equal(one[name][k], other[name][k])
    }
    counts = first.shards.counts_K != second.shards.counts_K
    return changed | set(counts.nonzero()[:, 0].tolist())


def neighbours_of(people: list[Person], extra: Person) -> list[list[Person]]:
    added = [*people[:1], extra, *people[1:]]  # in the middle: later ones are stored later
    return [added, people[1:]] if people else [added]


def transcript(
    subject: PateGan, people: list[Person], rows: int, seen: list[LatticeBlock]
) -> list[tuple[NetworkState, Tensor]]:
    state = subject.start(private(people).batches(rows))
    found = []
    for step in range(STEPS):
        seen.clear()
        state, _ = subject.gradient(state, samples(step), NoNoise())
        found.append((state.taught, seen[0].integers))
    return found


@pytest.mark.parametrize("labels", ["absolute", "relative"])
def test_one_unit_moves_one_teacher_and_each_count_by_one(
    labels: str, given_counts: list[LatticeBlock]
) -> None:
    @settings(deadline=None, max_examples=12)
    @given(
        people=people_strategy,
        extra=person_strategy,
        capacity=st.integers(1, 4),
        teacher=st.sampled_from(["mlp", "conv"]),
    )
    def check(people: list[Person], extra: Person, capacity: int, teacher: str) -> None:
        changes = {"shard_capacity": capacity, "teacher": teacher, "teacher_seed": capacity}
        spec = PateGanSpec(**(PARAMETERS | changes | {"labels": labels}))
        subject = PateGan(spec, SPACE)
        base = transcript(subject, people, 4, given_counts)
        for neighbour in neighbours_of(people, extra):
            touched: set[int] = set()
            other = transcript(subject, neighbour, 5, given_counts)
            for (taught, integers), (changed, moved) in zip(base, other, strict=True):
                touched |= changed_teachers(taught, changed)
                assert len(touched) <= 1
                squared = int((integers - moved).square().sum())
                assert Z**2 * squared <= FINE_STD**2
                assert squared == 0 or touched

    check()


def test_the_bound_is_met_by_a_teacher_that_changes_its_mind(
    given_counts: list[LatticeBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record or none: the empty shard is silent, the other says yes to every question."""
    monkeypatch.setattr(pate_gan, "opinions", lambda *_: [torch.ones((K, 3), dtype=torch.bool)])
    spec = PateGanSpec(
        **PARAMETERS, shard_capacity=4, teacher="mlp", teacher_seed=1, labels="absolute"
    )
    subject = PateGan(spec, SPACE)
    ends = [
        transcript(subject, people, 3, given_counts)[0][1] for people in ([], [[([0, 1, 2, 3], 0)]])
    ]
    distance = float((ends[0] - ends[1]).double().norm())
    assert not ends[0].any()
    assert 0.999 < Z * distance / FINE_STD <= 1
