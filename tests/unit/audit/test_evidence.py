"""Canaries are told by copies and not by chance; a page says whose it is and what may not leave."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt
import pytest

from audit.evidence_attacks import Attacks, CanaryFigures, attack_canaries
from audit.evidence_page import _odds
from curator.data.canaries import Canaries, draw_canaries
from tests.fakes.facts import small_facts

SPACE = small_facts(height=8, width=8, max_level=255).space
Rows = npt.NDArray[np.uint8]


def attacked(canaries: Canaries, copied: npt.NDArray[np.bool_], seed: int = 0) -> CanaryFigures:
    """Attack with images of which some copy canaries, with a little noise."""
    rng = np.random.default_rng(seed)
    rows = canaries.levels.reshape(len(canaries.is_in), -1)
    others = rng.integers(0, 256, (200, rows.shape[1]))
    made = np.concatenate([others, rows[copied] + rng.normal(0, 10, (copied.sum(), rows.shape[1]))])
    return attack_canaries(np.clip(made, 0, 255).astype(np.uint8), canaries, 1e-5)


def test_copies_prove_an_epsilon() -> None:
    canaries = draw_canaries(SPACE, 200)
    found = attacked(canaries, canaries.is_in)
    assert found.right.value > 0.99
    assert found.exposure is not None
    assert found.exposure.value > found.exposure.chance.high
    assert found.most > found.epsilon - 1e-9
    assert found.epsilon > 2.5
    attacks = Attacks(membership=None, canaries=found, notes=())
    assert len(attacks.alarms) == 2
    assert attacks.refutes(2.0)
    assert not attacks.refutes(10.0)


def test_what_knows_no_coin_proves_nothing() -> None:
    """A bound is wrong once in twenty times; copies of all candidates tell no coin."""
    bounds = []
    for seed in range(30):
        canaries = draw_canaries(SPACE, 60)
        bounds.append(attacked(canaries, np.ones(60, dtype=np.bool_), seed).epsilon)
    assert sum(bound > 0 for bound in bounds) <= 10  # of 30 at 1 in 20: 1 in 10^6


def test_exposure_by_chance_is_that_of_a_uniform_rank() -> None:
    canaries = draw_canaries(SPACE, 100)
    found = attacked(canaries, np.zeros(100, dtype=np.bool_))
    assert found.exposure is not None
    ranks = np.arange(1, 100 - found.num_in + 2)
    expected = float(np.mean(np.log2(len(ranks)) - np.log2(ranks)))
    assert found.exposure.chance.value == pytest.approx(expected, abs=0.15)
    assert 1.2 < expected < 1.45  # log2(e) in the limit


def test_one_image_again_and_again_alarms_once_in_forty_times() -> None:
    """Every canary is about as near to it: other tosses of the coins say what that is worth."""
    alarms = 0
    for _ in range(30):
        canaries = draw_canaries(SPACE, 40)
        grey = np.full((50, SPACE.dimension), 128, np.uint8)
        found = attack_canaries(grey, canaries, 1e-5)
        if found.exposure is not None:
            alarms += found.exposure.value > found.exposure.chance.high
    assert alarms <= 7  # of 30 at 1 in 40: 1 in 10^6


@pytest.mark.parametrize("num_in", [0, 1, 10])
def test_coins_that_all_fall_alike_say_nothing(num_in: int) -> None:
    canaries = replace(draw_canaries(SPACE, 10), is_in=np.arange(10) < num_in)
    found = attacked(canaries, canaries.is_in)
    assert (found.exposure is None) == (num_in != 1)
    json.dumps(asdict(found), allow_nan=False)
    assert not Attacks(membership=None, canaries=found, notes=()).refutes(1.9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        (0.0, 0.0, "50 times in 100, 1.0 for each"),
        (1.0, 0.0, "73 times in 100, 2.7 for each"),
        (10.0, 1e-5, "99.9955 times in 100, 22,027 for each"),
        (0.0, 0.5, "75 times in 100, 3.0 for each"),
        (1e9, 1e-5, "promises nothing"),
        (np.inf, 1e-5, "promises nothing"),
    ],
)
def test_a_guess_is_right_as_often_as_both_numbers_allow(
    epsilon: float, delta: float, words: str
) -> None:
    assert words in _odds(epsilon, delta)
