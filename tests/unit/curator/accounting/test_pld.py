from __future__ import annotations

import math
import time

import pytest
from scipy.stats import norm

from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.privacy.event_numbers import SamplingRate


def sampled(q: float, z: float) -> SampledGaussianEvent:
    return SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)


def gaussian_delta(epsilon: float, z: float) -> float:
    upper = norm.cdf(0.5 / z - epsilon * z)
    return float(upper - math.exp(epsilon) * norm.cdf(-0.5 / z - epsilon * z))


def test_nothing_is_free() -> None:
    assert pld_epsilon(NoEvent(), 1000, 1e-5) == 0.0


@pytest.mark.parametrize(("z", "steps"), [(1.0, 1), (4.0, 10), (30.0, 1000)])
def test_gaussians_against_the_analytic_formula(z: float, steps: int) -> None:
    epsilon = pld_epsilon(GaussianEvent(noise_multiplier=z), steps, 1e-5)
    assert gaussian_delta(epsilon, z / math.sqrt(steps)) <= 1e-5
    assert gaussian_delta(epsilon * 0.998, z / math.sqrt(steps)) > 1e-5


def test_never_above_the_renyi_bound() -> None:
    for q, z, steps in ((0.01, 1.0, 5000), (1e-6, 1000.0, 10**9), (0.9, 3000.0, 100)):
        assert pld_epsilon(sampled(q, z), steps, 1e-5) <= renyi_epsilon(sampled(q, z), steps, 1e-5)


@pytest.mark.parametrize("steps", [1, 15, 16, 17, 33])
def test_blocks_do_not_change_the_answer(steps: int) -> None:
    epsilons = [pld_epsilon(sampled(1e-6, 1.0), n, 1e-10) for n in (steps, steps + 1)]
    assert 0 < epsilons[0] < epsilons[1]


@pytest.mark.parametrize(
    ("q", "z", "steps"),
    [(1.0, 1e-2, 1), (1.0, 1e-2, 10**9), (1.0, 1e6, 10**9), (0.5, 0.05, 1000), (1e-9, 1.0, 10**7)],
)
def test_extremes_cost_neither_memory_nor_time(q: float, z: float, steps: int) -> None:
    started = time.perf_counter()
    assert 0 < pld_epsilon(sampled(q, z), steps, 1e-5) < math.inf
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_is_checked(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        pld_epsilon(GaussianEvent(noise_multiplier=1.0), 1, delta)


@pytest.mark.parametrize("steps", [0, -1, 10**10, 1.5])
def test_steps_are_checked(steps: int) -> None:
    with pytest.raises(ValueError, match="num_steps"):
        pld_epsilon(GaussianEvent(noise_multiplier=1.0), steps, 1e-5)
