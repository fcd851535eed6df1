"""Brute force over neighbouring data sets: a unit moves one teacher, and G-PATE by its bound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.mechanisms import g_pate
from curator.mechanisms.g_pate import GPate, GPateSpec
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import averaged, votes
from curator.sanitizer.averaged import FINE_STD
from tests.fakes.noise import NoNoise
from tests.property.test_critic_sensitivity import Person, people_strategy, person_strategy, private
from tests.property.test_teacher_sensitivity import (
    PARAMETERS,
    SPACE,
    STEPS,
    K,
    Z,
    changed_teachers,
    neighbours_of,
    samples,
)

TEACHERS = {
    name: value
    for name, value in PARAMETERS.items()
    if not name.startswith("student")
    and name not in {"num_labelled", "reach", "pool_steps", "residual"}
}
VOTES: dict[str, Any] = {"aggregation": "votes", "num_bins": 3}
MEAN: dict[str, Any] = {"aggregation": "mean", "num_bins": 0}


@pytest.fixture
def given_numbers(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Collect the integers that the sanitizer released."""
    seen: list[Tensor] = []

    def watching(real: Any) -> Any:
        def watched(*arguments: Any, **named: Any) -> Release:
            release: Release = real(*arguments, **named)
            (block,) = release.blocks
            assert isinstance(block, LatticeBlock)
            seen.append(block.integers)
            return release

        return watched

    monkeypatch.setattr(g_pate, "release_votes", watching(votes.release_votes))
    monkeypatch.setattr(g_pate, "release_critic_mean", watching(averaged.release_critic_mean))
    return seen


def mechanism(**changes: Any) -> GPate:
    parameters = TEACHERS | {"num_projections": 2, "projection_seed": 5, "clip_norm": 0.5}
    return GPate(GPateSpec(**(parameters | changes)), SPACE)


def transcript(
    subject: GPate, people: list[Person], rows: int, seen: list[Tensor]
) -> list[tuple[NetworkState, Tensor]]:
    state = subject.start(private(people).batches(rows))
    found = []
    for step in range(STEPS):
        seen.clear()
        state, _ = subject.gradient(state, samples(step), NoNoise())
        found.append((state, seen[0]))
    return found


@pytest.mark.parametrize("aggregation", [VOTES, MEAN], ids=["votes", "mean"])
def test_one_unit_moves_one_teacher_and_the_release_by_its_bound(
    aggregation: dict[str, Any], given_numbers: list[Tensor]
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
        subject = mechanism(**changes, **aggregation)
        base = transcript(subject, people, 4, given_numbers)
        for neighbour in neighbours_of(people, extra):
            touched: set[int] = set()
            other = transcript(subject, neighbour, 5, given_numbers)
            for (taught, integers), (changed, moved) in zip(base, other, strict=True):
                touched |= changed_teachers(taught, changed)
                assert len(touched) <= 1
                squared = int((integers - moved).square().sum())
                assert Z**2 * squared <= FINE_STD**2
                assert squared == 0 or touched

    check()


@pytest.mark.parametrize(
    ("aggregation", "shared"),
    [(VOTES, 2**-0.5), (MEAN, 0.5)],  # silence is half of what turning around moves
    ids=["votes", "mean"],
)
def test_the_bound_is_met(
    aggregation: dict[str, Any],
    shared: float,
    given_numbers: list[Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One teacher says all that it may in one world, the opposite or nothing in the other."""
    subject = mechanism(shard_capacity=4, teacher="mlp", teacher_seed=1, **aggregation)
    worlds = []
    for own in (-9.0, 9.0, None):
        said = torch.zeros(K, 3, 2)
        said[1] = 9.0 if own is None else own
        silence = torch.zeros((K, 1), dtype=torch.bool)
        silence[1] = own is None
        monkeypatch.setattr(g_pate, "projected_directions", lambda *_, s=said: s)
        monkeypatch.setattr(g_pate, "silent", lambda *_, e=silence: e)
        worlds.append(transcript(subject, [], 3, given_numbers)[0][1].double())
    turned = float((worlds[0] - worlds[1]).norm())
    assert 0.999 < Z * turned / FINE_STD <= 1
    silenced = float((worlds[1] - worlds[2]).norm())
    assert silenced == pytest.approx(shared * turned, rel=1e-3)
    assert subject.spec.num_samples * subject.spec.num_projections == 6
