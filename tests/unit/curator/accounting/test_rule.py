from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from curator.accounting.cost import UNIT, Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp
from curator.accounting.rule import BudgetRule, order_threshold
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

TEN = Budget(epsilon=10.0, delta=1e-5)


def at(alpha: float, unit: int) -> Cost:
    """A total that is finite at one order only."""
    return Cost(tuple(unit if order == alpha else None for order in ORDERS))


@pytest.mark.parametrize(
    ("epsilon", "delta", "favourite"), [(10.0, 1e-5, 3.5), (10.0, 1e-6, 4.0), (1.0, 1e-5, 20.0)]
)
def test_the_favourite_order(epsilon: float, delta: float, favourite: float) -> None:
    assert BudgetRule.register(Budget(epsilon=epsilon, delta=delta)).favourite == favourite


def test_the_weights_sum_to_one() -> None:
    weights = BudgetRule.register(TEN).weights
    assert sum(weights) == 1
    assert weights[ORDERS.index(3.5)] == Fraction(9, 10)
    assert len(set(weights)) == 2


def test_each_order_has_only_its_share_of_delta() -> None:
    # "Some order passes with the full delta" is unsound: no order may reach its full threshold.
    rule = BudgetRule.register(TEN)
    for alpha, weight in zip(ORDERS, rule.weights, strict=True):
        full = math.floor(order_threshold(alpha, TEN.epsilon, TEN.delta) * UNIT)
        share = float(order_threshold(alpha, TEN.epsilon, float(weight) * (TEN.delta - 1e-12)))
        if full <= 0:
            continue
        assert not rule.admits(at(alpha, full))
        if share > 0:
            assert rule.admits(at(alpha, math.floor(share * (1 - 1e-12) * UNIT)))
            assert not rule.admits(at(alpha, math.ceil(share * (1 + 1e-12) * UNIT)))


def test_the_adaptive_counterexample_is_refused() -> None:
    # ACCOUNTING 4.2: one zCDP release, then a leak that saturates the full delta at its best order.
    rule = BudgetRule.register(TEN)
    first = event_cost(GaussianEvent(noise_multiplier=math.sqrt(1 / (2 * 0.010))))
    for alpha in ORDERS:
        already = first.units[ORDERS.index(alpha)]
        assert already is not None
        full = math.floor(order_threshold(alpha, TEN.epsilon, TEN.delta) * UNIT)
        if full > already:
            assert not rule.admits(first + at(alpha, full - already))


def test_spent_is_zero_exactly_when_nothing_was_charged() -> None:
    rule = BudgetRule.register(TEN)
    assert rule.spent_epsilon(Cost.zero()) == 0.0
    assert rule.spent_epsilon(Cost((1,) + (0,) * (len(ORDERS) - 1))) > 0.0
    assert rule.spent_epsilon(Cost((None,) * len(ORDERS))) == math.inf
    assert rule.admits(Cost.zero())
    assert not rule.admits(Cost((None,) * len(ORDERS)))


def test_admitted_exactly_when_spent_is_within_the_budget() -> None:
    for epsilon in (10.0, 0.1, 1 / 3, 1e-3, 19.99):
        rule = BudgetRule.register(Budget(epsilon=epsilon, delta=1e-5))
        for alpha, offset in zip(ORDERS, rule.offsets, strict=True):
            edge = math.floor(Fraction(epsilon) * UNIT) - offset
            for unit in range(max(1, edge - 2), max(1, edge + 3)):
                total = at(alpha, unit)
                assert rule.admits(total) == (rule.spent_epsilon(total) <= epsilon)
                assert rule.admits(total) == (unit <= edge)


def test_spent_is_above_the_unweighted_conversion() -> None:
    rule = BudgetRule.register(TEN)
    step = event_cost(
        SampledGaussianEvent(sampling_rate=SamplingRate.at_least(1 / 1200), noise_multiplier=1.1)
    )
    for steps in (1, 1000, 3_400_000):
        best = min(
            epsilon_from_rdp(alpha, (unit or 0) * steps / UNIT, TEN.delta)
            for alpha, unit in zip(ORDERS, step.units, strict=True)
        )
        assert best < rule.spent_epsilon(step * steps) < best * 1.8


def test_affordable_steps_is_exact() -> None:
    rule = BudgetRule.register(TEN)
    step = event_cost(
        SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.01), noise_multiplier=1.0)
    )
    setup = event_cost(GaussianEvent(noise_multiplier=4.0))
    already = step * 100
    most = rule.affordable_steps(already, setup, step, 10**7)
    assert rule.admits(already + setup + step * most)
    assert not rule.admits(already + setup + step * (most + 1))
    assert rule.affordable_steps(already, setup, step, most - 1) == most - 1
    assert rule.affordable_steps(already, Cost((None,) * len(ORDERS)), step, 5) == 0
    assert rule.affordable_steps(Cost.zero(), Cost.zero(), Cost.zero(), 7) == 7


def test_the_rule_survives_storage() -> None:
    rule = BudgetRule.register(TEN)
    assert BudgetRule.from_json(json.loads(json.dumps(rule.to_json()))) == rule


@pytest.mark.parametrize(
    "change", [{"rule": "other"}, {"orders": [2.0]}, {"offsets": None}, {"delta": 0.5}]
)
def test_another_rule_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        BudgetRule.from_json({**BudgetRule.register(TEN).to_json(), **change})


def test_offsets_do_not_depend_on_the_platform() -> None:
    # Sixty-digit decimals, correctly rounded: these integers are the same on every machine.
    offsets = BudgetRule.register(TEN).offsets
    assert offsets[ORDERS.index(3.5)] == 4392327723687068093
    assert offsets[ORDERS.index(2.0)] == 17893640070171284188
