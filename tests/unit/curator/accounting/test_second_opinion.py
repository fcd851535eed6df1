from __future__ import annotations

import math

import pytest
from opacus.accountants.analysis import rdp as opacus_rdp

from curator.accounting import second_opinion
from curator.accounting.cost import event_cost
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rule import BudgetRule
from curator.accounting.second_opinion import divergence_by_definition, second_epsilon
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

WORKLOADS = [
    (10.0, 1e-5, 1 / 1200, 1.1, 3_400_000),
    (3.0, 1e-6, 0.02, 1.5, 2_000),
    (1.0, 1e-5, 0.001, 2.0, 100_000),
    (0.5, 1e-5, 0.2, 20.0, 100),
    (10.0, 1e-5, 1 / 1200, 0.5, 2_600),
    (10.0, 1e-4, 40 / 1437, 0.6, 100),
]


def test_nothing_used_is_zero() -> None:
    rule = BudgetRule.register(Budget(epsilon=1.0, delta=1e-5))
    assert second_epsilon(rule, []) == 0.0
    nothing: list[tuple[PrivacyEvent, int]] = [
        (NoEvent(), 5),
        (GaussianEvent(noise_multiplier=1.0), 0),
    ]
    assert second_epsilon(rule, nothing) == 0.0


@pytest.mark.parametrize(("epsilon", "delta", "q", "z", "steps"), WORKLOADS)
def test_close_to_the_ledger_and_never_above(
    epsilon: float, delta: float, q: float, z: float, steps: int
) -> None:
    rule = BudgetRule.register(Budget(epsilon=epsilon, delta=delta))
    step = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)
    setup = GaussianEvent(noise_multiplier=20.0)
    ours = rule.spent_epsilon(event_cost(step) * steps + event_cost(setup))
    second = second_epsilon(rule, [(step, steps), (setup, 1)])
    assert ours * (1 - 3e-3) <= second <= ours * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "q", "z", "steps"), WORKLOADS)
def test_opacus_agrees(epsilon: float, delta: float, q: float, z: float, steps: int) -> None:
    rule = BudgetRule.register(Budget(epsilon=epsilon, delta=delta))
    step = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)
    ours = rule.spent_epsilon(event_cost(step) * steps)
    theirs = math.inf
    for alpha, weight in zip(ORDERS, rule.weights, strict=True):
        if alpha > 64:  # opacus overflows to NaN further up
            continue
        rdp = opacus_rdp.compute_rdp(q=q, noise_multiplier=z, steps=steps, orders=[alpha])
        share = (delta - 1e-12) * float(weight)
        bound = float(rdp[0]) + math.log1p(-1 / alpha) - math.log(share * alpha) / (alpha - 1)
        theirs = min(theirs, bound)
    assert ours == pytest.approx(theirs, rel=3e-3)


@pytest.mark.parametrize("alpha", [2.0, 3.0, 16.0, 64.0, 512.0])
def test_a_divergence_is_found_in_the_epsilon_of_dp_accounting(alpha: float) -> None:
    event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.01), noise_multiplier=1.1)
    found = second_opinion._rdp_by_dp_accounting(alpha, [(event.elsewhere, 1000)])
    assert found == pytest.approx(1000 * divergence_by_definition(event, alpha), rel=1e-9)
