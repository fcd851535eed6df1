from __future__ import annotations

import pytest

from curator.accounting.calibrate import noise_multiplier_for
from curator.accounting.cost import Cost, event_cost
from curator.accounting.orders import ORDERS
from curator.accounting.rule import BudgetRule
from curator.privacy.budget import Budget
from curator.privacy.event import GaussianEvent, SampledGaussianEvent, SamplingRate

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
