"""The score of a whole release is its likelihood ratio: nothing in it is left unused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from audit import CANARIES
from audit.canaries import make_pair
from audit.canary_records import records_of
from audit.direction import statistic_of, values_of
from audit.noise import ChosenNoise, PublicWords
from audit.released import slope_of_first_step
from audit.target import Target
from audit.targets import make_target
from audit.trial import run_in_process
from curator.divergences.autoencoder import on_grid
from curator.divergences.dp_critic import CriticVector, adam_step
from curator.privacy.noise import NoiseSource

NAMES = ("dp-merf-ae", "dp-merf-ae-training", "feature-statistics")


def answer(target: Target, canary: str, more: bool, noise: NoiseSource) -> np.ndarray:
    pair = make_pair(canary)
    trial = run_in_process(target, pair, records_of(pair, with_extra=more), noise)
    return values_of(trial.answers)


@pytest.mark.parametrize("canary", [one for one in CANARIES if one != "failing"])
@pytest.mark.parametrize("name", NAMES)
def test_noise_free_scores_lie_as_far_apart_as_a_gaussian_allows(name: str, canary: str) -> None:
    """A likelihood ratio of N(0, 1) and N(m, 1) has means -m^2 / 2 and m^2 / 2; m is 1 / z."""
    z = 0.8
    target, pair = make_target(name, z), make_pair(canary)
    statistic = statistic_of(target, pair)
    ends = [statistic(answer(target, canary, more, ChosenNoise(None))) for more in (False, True)]
    assert ends == pytest.approx([-0.5 / z**2, 0.5 / z**2], rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_gaussian_that_is_charged(name: str) -> None:
    """The same words for both, so that the gap has little noise left; five sigmas of a spread."""
    numbers = range(80)
    target = make_target(name, 1.0)
    statistic = statistic_of(target, make_pair("flip"))
    without, extra = (
        np.array([statistic(answer(target, "flip", more, PublicWords(n))) for n in numbers])
        for more in (False, True)
    )
    assert np.mean(extra - without) == pytest.approx(1.0, abs=0.05)
    for one in (without, extra):
        assert np.std(one) == pytest.approx(1.0, abs=5 / math.sqrt(2 * len(numbers)))


def test_the_encoder_is_another_one_in_each_run() -> None:
    target = make_target("dp-merf-ae", 1.0)
    first, second = (answer(target, "flip", False, PublicWords(number)) for number in (0, 1))
    assert np.abs(first - second)[:32].max() > 0.5  # the weights of its first layer


@pytest.mark.parametrize("learning_rate", [1.0, 0.5])
def test_slopes_below_adams_epsilon_can_be_had_back(learning_rate: float) -> None:
    """Within a hundredth of what they are, from weights on their grid; of large ones the sign."""
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(500, generator=generator)
    slope = torch.randn(500, generator=generator) * 3e-9
    slope[0] = 1.0
    after = on_grid(adam_step(CriticVector.start(start), slope, learning_rate).values)
    again = slope_of_first_step(start, after, learning_rate)
    assert float((again - slope)[1:].abs().max()) < 3e-11
    assert 0 < float(again[0]) < 1e-4
