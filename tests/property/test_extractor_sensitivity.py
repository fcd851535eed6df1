"""Brute force over neighbouring data sets: a unit moves one extractor, the release by its bound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.mechanisms import adversarial_dp_sinkhorn
from curator.mechanisms.adversarial_dp_sinkhorn import (
    AdversarialDpSinkhorn,
    AdversarialDpSinkhornSpec,
)
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer import averaged
from curator.sanitizer.averaged import FINE_STD
from tests.fakes.noise import NoNoise
from tests.property.test_critic_sensitivity import (
    Person,
    changed_critics,
    people_strategy,
    person_strategy,
    private,
)
from tests.property.test_teacher_sensitivity import SPACE, K, neighbours_of, samples

Z, STEPS = 1.1, 2
PARAMETERS: dict[str, Any] = {
    "num_extractors": K,
    "num_samples": 2,
    "num_debias": 1,
    "clip_norm": 0.5,
    "noise_multiplier": Z,
    "reg": 0.5,
    "label_scale": 1.0,
    "feature_scale": 3.0,
    "extractor_width": 4,
    "extractor_steps": 2,
    "extractor_learning_rate": 0.3,  # extractors that move a lot
}


@pytest.fixture
def given_numbers(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Collect the integers that the sanitizer released."""
    seen: list[Tensor] = []

    def watched(*arguments: Any, **named: Any) -> Release:
        release = averaged.release_critic_mean(*arguments, **named)
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        seen.append(block.integers)
        return release

    monkeypatch.setattr(adversarial_dp_sinkhorn, "release_critic_mean", watched)
    return seen


def transcript(
    subject: AdversarialDpSinkhorn, people: list[Person], rows: int, seen: list[Tensor]
) -> list[tuple[NetworkState, Tensor]]:
    state = subject.start(private(people).batches(rows))
    found = []
    for step in range(STEPS):
        seen.clear()
        state, _ = subject.gradient(state, samples(step), NoNoise())
        found.append((state, seen[0]))
    return found


def test_one_unit_moves_one_extractor_and_the_average_by_two_clip_norms(
    given_numbers: list[Tensor],
) -> None:
    @settings(deadline=None, max_examples=20)
    @given(
        people=people_strategy,
        extra=person_strategy,
        capacity=st.integers(1, 4),
        extractor=st.sampled_from(["mlp", "conv"]),
    )
    def check(people: list[Person], extra: Person, capacity: int, extractor: str) -> None:
        changes: dict[str, Any] = {
            "shard_capacity": capacity,
            "extractor": extractor,
            "extractor_seed": capacity,
        }
        subject = AdversarialDpSinkhorn(AdversarialDpSinkhornSpec(**PARAMETERS, **changes), SPACE)
        base = transcript(subject, people, 4, given_numbers)
        for neighbour in neighbours_of(people, extra):
            touched: set[int] = set()
            other = transcript(subject, neighbour, 5, given_numbers)
            for (state, integers), (changed, moved) in zip(base, other, strict=True):
                touched |= changed_critics(state, changed)
                assert len(touched) <= 1
                squared = int((integers - moved).square().sum())
                assert Z**2 * squared <= FINE_STD**2
                assert squared == 0 or touched

    check()


def test_the_bound_is_met_by_an_extractor_that_turns_around(
    given_numbers: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it is what saying nothing moves."""
    spec = AdversarialDpSinkhornSpec(
        **PARAMETERS, shard_capacity=4, extractor="mlp", extractor_seed=1
    )
    subject = AdversarialDpSinkhorn(spec, SPACE)
    people: list[Person] = [[([0, 1, 2, 3], 0)]]
    ends = []
    for sign in (1.0, -1.0, 0.0):
        said = torch.full((K, 3, 4), sign)
        monkeypatch.setattr(adversarial_dp_sinkhorn, "transport_gradients", lambda *_, s=said: [s])
        ends.append(transcript(subject, people, 3, given_numbers)[0][1].double())
    turned = float((ends[0] - ends[1]).norm())
    assert 0.999 < Z * turned / FINE_STD <= 1
    assert float((ends[0] - ends[2]).norm()) == pytest.approx(turned / 2, rel=1e-3)
