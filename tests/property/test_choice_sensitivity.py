"""Brute force over neighbouring data sets, for whatever an adversary asks of each record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

from curator.divergences.feature_nets import LARGEST_WEIGHT
from curator.mechanisms.record_choices import ChoiceMechanism
from curator.privacy.batches import RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer import choices
from curator.sanitizer.averaged import FINE_STD
from tests.fakes.choices import SPACE, agreeing, asking, network, score, votes
from tests.fakes.noise import NoNoise

Z = 1.1
ROWS = 6

records = st.lists(
    st.tuples(
        st.lists(st.integers(0, 16), min_size=SPACE.dimension, max_size=SPACE.dimension),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=ROWS,
)
"""Levels, class and unit of each record."""


def released(subject: ChoiceMechanism, asked: Samples, *inside: RecordBatch) -> Tensor:
    _, release = subject.gradient(subject.start(map(Private, inside)), asked, NoNoise())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def batch_of(given: list[tuple[list[int], int, int]]) -> RecordBatch:
    count = len(given)
    padding = [([0] * SPACE.dimension, 0, -1)] * (ROWS - count)
    levels, labels, units = zip(*(*given, *padding), strict=True)
    return RecordBatch(
        levels_MD=torch.tensor(levels, dtype=torch.uint8),
        labels_M=torch.tensor(labels),
        mask_M=torch.arange(ROWS) < count,
        units_M=torch.tensor(units),
    )


def furthest(
    subject: ChoiceMechanism, asked: Samples, inside: list[tuple[list[int], int, int]]
) -> float:
    """Return how far the counts are moved by the unit that moves them most."""
    base = released(subject, asked, batch_of(inside))
    moved = []
    for unit in {one[2] for one in inside}:
        rest = [one for one in inside if one[2] != unit]
        moved.append(base - released(subject, asked, batch_of(rest)))
    return max(float(one.double().norm()) for one in moved)


@settings(deadline=None, max_examples=25)
@given(
    inside=records,
    counts=st.sampled_from(["by-class", "total"]),
    architecture=st.sampled_from(["mlp-features", "mlp-features", "lenet-features"]),
    scale=st.sampled_from([0.0, 1e-4, 0.1, LARGEST_WEIGHT]),
    most=st.sampled_from([1, 2, ROWS]),
    seed=st.integers(0, 2**31 - 1),
)
def test_one_unit_moves_a_score_by_what_is_charged_at_most(
    inside: list[tuple[list[int], int, int]],
    counts: str,
    architecture: str,
    scale: float,
    most: int,
    seed: int,
) -> None:
    subject = score(counts=counts, architecture=architecture, max_records_per_unit=most)
    asked = asking(subject, weights=save(network(subject, scale, seed)))
    assert furthest(subject, asked, inside) <= FINE_STD / Z


@settings(deadline=None, max_examples=40)
@given(
    inside=records,
    features=st.sampled_from(["pixels", "pixels", "scattering"]),
    each=st.sampled_from([1, 3]),
    alike=st.booleans(),
    most=st.sampled_from([1, 2, ROWS]),
    seed=st.integers(0, 2**31 - 1),
)
def test_one_unit_moves_votes_by_what_is_charged_at_most(
    inside: list[tuple[list[int], int, int]],
    features: str,
    each: int,
    alike: bool,
    most: int,
    seed: int,
) -> None:
    subject = votes(features=features, images_per_candidate=each, max_records_per_unit=most)
    asked = agreeing(subject) if alike else asking(subject, seed)
    assert furthest(subject, asked, inside) <= FINE_STD / Z


def three_of_one_unit(most: int, make: Callable[..., ChoiceMechanism] = score) -> float:
    """Return how far three records of one unit that choose the same move it, over the bound."""
    subject = make(max_records_per_unit=most)
    inside = [([16] * SPACE.dimension, 0, 0)] * 3
    return furthest(subject, agreeing(subject), inside) / (FINE_STD / Z)


@pytest.mark.parametrize("make", [score, votes])
def test_the_bound_is_reached_and_not_far_from_it(make: Callable[..., ChoiceMechanism]) -> None:
    assert 0.999 < three_of_one_unit(3, make) <= 1
    assert three_of_one_unit(2, make) == 0


def test_a_group_beyond_its_bound_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "_fits", lambda units, _: units >= 0)
    assert three_of_one_unit(2) > 1.4
