"""The order that a budget favours is the one that affords most of a method, and costs nothing."""

from __future__ import annotations

import pytest

from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp, rdp_at
from curator.accounting.rule import BudgetRule, default_favourite, favourite_for
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate as Rate
from curator.service.steward_policy import StewardPolicy

BUDGET = Budget(epsilon=10.0, delta=1e-5)
NOTHING = Cost.zero()


def affords(rule: BudgetRule, step: Cost) -> int:
    return rule.affordable_steps(NOTHING, NOTHING, step, 10**9)


@pytest.mark.parametrize(
    ("epsilon", "noise", "times"), [(10.0, 0.494, 2.5), (1.0, 1.1, 3.5), (10.0, 1.1, 1.0)]
)
def test_sampled_steps_gain_what_their_best_order_is_worth(
    epsilon: float, noise: float, times: float
) -> None:
    budget = Budget(epsilon=epsilon, delta=1e-5)
    event = SampledGaussianEvent(sampling_rate=Rate.at_least(1 / 1200), noise_multiplier=noise)
    step = event_cost(event)
    best = favourite_for(budget, NOTHING, step)
    steps = affords(BudgetRule.register(budget, best), step)
    assert steps >= times * affords(BudgetRule.register(budget), step)
    assert steps == max(affords(BudgetRule.register(budget, order), step) for order in ORDERS)
    # a run that was declared in advance, at one order with all of delta, may have no fewer
    alone = min(epsilon_from_rdp(a, steps * rdp_at(event, a), 1e-5) for a in ORDERS)
    assert alone <= epsilon


def test_gaussians_are_served_by_the_default() -> None:
    for noise in (5.0, 50.0):
        step = event_cost(GaussianEvent(noise_multiplier=noise))
        assert favourite_for(BUDGET, NOTHING, step) == default_favourite(BUDGET)


def test_a_method_that_is_charged_once_is_as_cheap_as_it_can_be() -> None:
    setup = event_cost(GaussianEvent(noise_multiplier=1.0))
    best = favourite_for(BUDGET, setup, NOTHING)
    prices = [BudgetRule.register(BUDGET, order).spent_epsilon(setup) for order in ORDERS]
    assert BudgetRule.register(BUDGET, best).spent_epsilon(setup) == min(prices)


@pytest.mark.parametrize("order", ORDERS)
def test_whichever_is_chosen_the_shares_of_delta_add_up_to_one(order: float) -> None:
    rule = BudgetRule.register(BUDGET, order)
    assert sum(rule.weights) == 1
    assert rule.weights[ORDERS.index(order)] == max(rule.weights)
    assert rule.chosen == (None if order == default_favourite(BUDGET) else order)
    assert BudgetRule.from_json(rule.to_json()) == rule
    # what it gives its favourite it takes from the others
    default = BudgetRule.register(BUDGET)
    cheaper = [a < b for a, b in zip(rule.offsets, default.offsets, strict=True)]
    assert sum(cheaper) == (0 if rule.chosen is None else 1)


@pytest.mark.parametrize("order", [7.0, 1.0, 0.0, float("nan"), float("inf")])
def test_an_order_that_the_costs_do_not_have_is_refused(order: float) -> None:
    with pytest.raises(ValueError, match=r"is none of 1\.5, 2, 2\.5"):
        BudgetRule.register(BUDGET, order)


def test_the_policy_measures_a_run_as_the_budget_does() -> None:
    registered = BudgetRule.register(BUDGET, 2.5)
    rule = StewardPolicy(max_epsilon_per_run=4.0).epsilon_rule(registered)
    assert rule == BudgetRule.register(Budget(epsilon=4.0, delta=BUDGET.delta), 2.5)
    usual = StewardPolicy(max_epsilon_per_run=4.0).epsilon_rule(BudgetRule.register(BUDGET))
    assert usual == BudgetRule.register(Budget(epsilon=4.0, delta=BUDGET.delta))
