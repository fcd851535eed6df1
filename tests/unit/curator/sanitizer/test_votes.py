"""Counts of votes: every voter bounded by what a ballot is, in exact integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.privacy.release import LatticeBlock
from curator.sanitizer import votes
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.votes import MAX_COUNTS, MAX_VOTERS, Ballot, count_scale, release_votes
from tests.fakes.noise import NoNoise

YES_OR_NOTHING = Ballot(num_voters=3, num_questions=4, num_options=1)
CHOICE = Ballot(num_voters=3, num_questions=4, num_options=5)


def released(
    compute: Callable[[], Iterable[Tensor]], ballot: Ballot = CHOICE, z: float = 1.3
) -> LatticeBlock:
    release = release_votes(compute, ballot=ballot, noise_multiplier=z, noise=NoNoise())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block


def counts(answers: Any, ballot: Ballot = CHOICE) -> list[list[int]]:
    block = released(lambda: [torch.as_tensor(answers)], ballot)
    scale = count_scale(ballot, 1.3)
    assert block.grid == 1 / scale
    assert not (block.integers % scale).any()
    found: list[list[int]] = (block.integers // scale).tolist()
    return found


def test_counts_are_the_numbers_of_voters() -> None:
    answers = [[0, 4, 2, -1], [0, 4, 3, -1], [1, 4, 2, 0]]
    assert counts(answers) == [[2, 1, 0, 0, 0], [0, 0, 0, 0, 3], [0, 0, 2, 1, 0], [1, 0, 0, 0, 0]]
    assert counts(answers, YES_OR_NOTHING) == [[2], [0], [0], [1]]


@pytest.mark.parametrize("answer", [-1, -(2**63), 5, 2**62])
def test_answers_that_are_no_option_are_silence(answer: int) -> None:
    assert counts([[answer] * 4] * 3) == [[0] * 5] * 4


def test_voters_come_in_parts() -> None:
    answers = torch.randint(-1, 5, (3, 4), generator=torch.Generator().manual_seed(0))
    parts = torch.split(answers, 2)
    whole, split = released(lambda: [answers]), released(lambda: parts)
    assert torch.equal(whole.integers, split.integers)


def test_a_large_table_is_tallied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = torch.randint(-1, 5, (3, 4), generator=torch.Generator().manual_seed(1))
    whole = released(lambda: [answers])
    monkeypatch.setattr(votes, "_MAX_ENTRIES", 1)
    assert torch.equal(released(lambda: [answers]).integers, whole.integers)


@pytest.mark.parametrize("z", [0.01, 0.3, 1.0, 9.24, 75.2, 4_000.0, 32_000.0, 1 / 3])
@pytest.mark.parametrize(
    "ballot", [YES_OR_NOTHING, CHOICE, Ballot(num_voters=1, num_questions=1_000, num_options=3)]
)
def test_noise_over_sensitivity_is_never_below_what_is_charged(z: float, ballot: Ballot) -> None:
    scale = count_scale(ballot, z)
    squares = Fraction(FINE_STD) ** 2, Fraction(z) ** 2 * ballot.squared_sensitivity
    assert squares[0] >= squares[1] * scale**2
    assert scale == FINE_STD or squares[0] < squares[1] * (scale + 1) ** 2
    assert MAX_VOTERS * scale < 1 << 62


def test_one_voter_moves_the_counts_by_the_declared_distance() -> None:
    """Every pair of answers of one voter to two questions, with others that stay."""
    for num_options in (1, 2, 3):
        ballot = Ballot(num_voters=2, num_questions=2, num_options=num_options)
        scale = count_scale(ballot, 1.3)
        furthest = 0
        answers = list(itertools.product(range(-1, num_options), repeat=2))
        for one, other in itertools.product(answers, repeat=2):
            ends = [
                released(lambda own=own: [torch.tensor([[0, 0], own])], ballot).integers  # type: ignore[misc]
                for own in (one, other)
            ]
            furthest = max(furthest, int((ends[0] - ends[1]).square().sum()))
        assert furthest == ballot.squared_sensitivity * scale**2


def _failing() -> Iterator[Tensor]:
    yield torch.zeros((1, 4), dtype=torch.int64)
    raise MemoryError


@pytest.mark.parametrize(
    "compute",
    [
        _failing,
        lambda: [torch.zeros((2, 4), dtype=torch.int64)],  # too few voters
        lambda: [torch.zeros((4, 4), dtype=torch.int64)],  # too many
        lambda: [torch.zeros((3, 5), dtype=torch.int64)],
        lambda: [torch.zeros((3, 1), dtype=torch.int64)],  # would be spread
        lambda: [torch.zeros((3, 4))],
        lambda: [torch.zeros((3, 4), dtype=torch.bool)],
        lambda: [None],
        lambda: None,
    ],
)
def test_whatever_goes_wrong_becomes_zero_counts(compute: Any) -> None:
    block = released(compute)
    assert block.integers.shape == (4, 5)
    assert not block.integers.any()


def test_the_noise_has_the_fine_standard_deviation() -> None:
    """20,000 draws: a false alarm has probability below 1e-7 (5.4 standard errors)."""
    ballot = Ballot(num_voters=1, num_questions=4_000, num_options=5)
    silence = torch.full((1, 4_000), -1)
    release = release_votes(
        lambda: [silence], ballot=ballot, noise_multiplier=2.5, noise=OsEntropy()
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    std = float((block.integers.double() * block.grid).std())
    assert std == pytest.approx(2.5 * math.sqrt(8_000), rel=5.4 / math.sqrt(2 * 20_000) + 1e-3)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True])
@pytest.mark.parametrize("name", ["num_voters", "num_questions", "num_options"])
def test_sizes_are_positive_integers(name: str, bad: Any) -> None:
    sizes: dict[str, Any] = {"num_voters": 3, "num_questions": 4, "num_options": 2, name: bad}
    with pytest.raises(ValueError, match="positive"):
        Ballot(**sizes)


@pytest.mark.parametrize(
    "sizes", [(MAX_VOTERS + 1, 1, 1), (1, MAX_COUNTS + 1, 1), (1, 2, MAX_COUNTS)]
)
def test_absurd_sizes_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="too many"):
        Ballot(num_voters=sizes[0], num_questions=sizes[1], num_options=sizes[2])


@pytest.mark.parametrize("z", [0.0, math.nan, math.inf, 1e7])
def test_a_multiplier_that_no_accountant_should_see_is_refused(z: float) -> None:
    with pytest.raises(ValueError, match="noise_multiplier"):
        count_scale(CHOICE, z)


def test_a_multiplier_without_a_lattice_is_refused() -> None:
    ballot = Ballot(num_voters=1, num_questions=MAX_COUNTS, num_options=1)
    with pytest.raises(ValueError, match="too large for the lattice"):
        count_scale(ballot, 1e6)
