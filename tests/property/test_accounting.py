"""What holds for every event and every budget."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent, fractional_rdp_bound
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import rdp_at
from curator.accounting.rule import BudgetRule
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

unhurried = settings(deadline=None, max_examples=50)  # the machine may be busy
rates = st.integers(1, 1 << 64).map(SamplingRate) | st.floats(1e-9, 1.0).map(SamplingRate.at_least)
multipliers = st.floats(1e-2, 1e6) | st.floats(0.3, 10.0)
factors = st.floats(1.0, 100.0)
steps = st.integers(1, 10**9)
budgets = st.builds(Budget, epsilon=st.floats(1e-3, 20.0), delta=st.floats(1e-11, 1e-2))


def sampled(rate: SamplingRate, z: float) -> SampledGaussianEvent:
    return SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z)


def not_cheaper(dear: Cost, cheap: Cost) -> bool:
    """At no order cheaper, beyond the rounding that the inflation of every cost covers."""
    for a, b in zip(dear.units, cheap.units, strict=True):
        if a is not None and (b is None or (b - a) * 10**10 > b + 10**10):
            return False
    return True


@unhurried
@given(rates, multipliers)
def test_costs_are_finite_positive_integers(rate: SamplingRate, z: float) -> None:
    assert all(unit is not None and unit > 0 for unit in event_cost(sampled(rate, z)).units)


@unhurried
@given(rates, multipliers, factors)
def test_less_noise_is_never_cheaper(rate: SamplingRate, z: float, factor: float) -> None:
    more = min(z * factor, 1e6)
    assert not_cheaper(event_cost(sampled(rate, z)), event_cost(sampled(rate, more)))


@unhurried
@given(rates, rates, multipliers)
def test_a_larger_rate_is_never_cheaper(a: SamplingRate, b: SamplingRate, z: float) -> None:
    low, high = sorted((a, b), key=lambda rate: rate.numerator)
    assert not_cheaper(event_cost(sampled(high, z)), event_cost(sampled(low, z)))


@unhurried
@given(rates, multipliers)
def test_sampling_never_costs_more_than_not_sampling(rate: SamplingRate, z: float) -> None:
    assert not_cheaper(event_cost(GaussianEvent(noise_multiplier=z)), event_cost(sampled(rate, z)))


@unhurried
@given(st.floats(1e-6, 0.999), st.floats(0.2, 50.0), st.sampled_from([1.5, 2.5, 3.5]))
def test_fractional_costs_are_above_the_truth(q: float, z: float, alpha: float) -> None:
    event = sampled(SamplingRate.at_least(q), z)
    truth = rdp_at(event, alpha)
    assert fractional_rdp_bound(float(event.sampling_rate), z, alpha) >= truth * (1 - 1e-9)
    unit = event_cost(event).units[ORDERS.index(alpha)]
    assert unit is not None
    assert unit >= truth * 2**60 * (1 - 1e-8)


@unhurried
@given(budgets, rates, multipliers, steps, steps)
def test_more_steps_are_never_cheaper(
    budget: Budget, rate: SamplingRate, z: float, a: int, b: int
) -> None:
    rule, step = BudgetRule.register(budget), event_cost(sampled(rate, z))
    few, many = sorted((a, b))
    assert 0 < rule.spent_epsilon(step * few) <= rule.spent_epsilon(step * many)
    assert rule.admits(step * few) or not rule.admits(step * many)


@unhurried
@given(budgets, rates, multipliers, steps)
def test_admitted_exactly_when_the_spent_epsilon_is_within(
    budget: Budget, rate: SamplingRate, z: float, n: int
) -> None:
    rule, total = BudgetRule.register(budget), event_cost(sampled(rate, z)) * n
    spent = rule.spent_epsilon(total)
    assert not math.isnan(spent)
    assert rule.admits(total) == (spent <= budget.epsilon)


@unhurried
@given(budgets, rates, multipliers)
def test_the_affordable_number_of_steps_is_the_largest(
    budget: Budget, rate: SamplingRate, z: float
) -> None:
    rule, step = BudgetRule.register(budget), event_cost(sampled(rate, z))
    most = rule.affordable_steps(Cost.zero(), Cost.zero(), step, 10**9)
    assert rule.admits(step * most)
    assert most == 10**9 or not rule.admits(step * (most + 1))


@unhurried
@given(st.lists(st.tuples(rates, multipliers, st.integers(0, 10**9)), max_size=5))
def test_sums_are_exact_in_any_order(uses: list[tuple[SamplingRate, float, int]]) -> None:
    costs = [event_cost(sampled(rate, z)) * n for rate, z, n in uses]
    forward = sum(costs, Cost.zero())
    backward = sum(reversed(costs), Cost.zero())
    assert forward == backward
    for cost in costs:
        forward = forward.minus(cost)
    assert forward == Cost.zero()


@pytest.mark.parametrize("q", [1e-9, 0.5, 1.0])
@pytest.mark.parametrize("z", [1e-2, 0.3, 1.0, 100.0])
def test_ten_million_steps_at_the_extremes(q: float, z: float) -> None:
    rule = BudgetRule.register(Budget(epsilon=20.0, delta=1e-6))
    spent = rule.spent_epsilon(event_cost(sampled(SamplingRate.at_least(q), z)) * 10**7)
    assert 0 < spent < math.inf
