from __future__ import annotations

import pytest

from curator.accounting.calibrate import least_noise_near, noise_multiplier_for
from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rule import BudgetRule
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

RULE = BudgetRule.register(Budget(epsilon=2.0, delta=1e-5))


def step(z: float) -> SampledGaussianEvent:
    return SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.01), noise_multiplier=z)


@pytest.mark.parametrize("spent", [Cost.zero(), event_cost(GaussianEvent(noise_multiplier=5.0))])
def test_enough_noise_and_hardly_more(spent: Cost) -> None:
    z = noise_multiplier_for(RULE, spent, step, 10_000)
    assert RULE.admits(spent + event_cost(step(z)) * 10_000)
    assert not RULE.admits(spent + event_cost(step(z * (1 - 2e-6))) * 10_000)


def test_no_noise_is_enough_when_all_is_spent() -> None:
    with pytest.raises(ValueError, match="no amount"):
        noise_multiplier_for(RULE, Cost((None,) * len(ORDERS)), step, 1)


def test_steps_are_checked() -> None:
    with pytest.raises(ValueError, match="num_steps"):
        noise_multiplier_for(RULE, Cost.zero(), step, 0)


@pytest.mark.parametrize("guess", [0.0001, 0.9, 7.0, 1e9])
def test_a_guess_saves_questions_and_changes_nothing(guess: float) -> None:
    asked: list[float] = []

    def enough(z: float) -> bool:
        asked.append(z)
        return z >= 3.0

    found = least_noise_near(guess, enough, tolerance=1e-4, most=1e4)
    assert 3.0 <= found <= 3.0 * 1.0001
    assert len(asked) < 32
    assert least_noise_near(guess, lambda _: True, tolerance=1e-4, most=1e4) == 0.01


def test_what_no_noise_reaches_is_said() -> None:
    with pytest.raises(ValueError, match="no amount"):
        least_noise_near(1.0, lambda _: False, tolerance=1e-4, most=1e4)
