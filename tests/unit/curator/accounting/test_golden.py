"""The ledger's mathematics against values computed independently, each to its stated tolerance."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from curator.accounting.calibrate import noise_multiplier_for
from curator.accounting.cost import UNIT, Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp, rdp_at
from curator.accounting.rule import BudgetRule, order_threshold
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate
from tests.reference import golden_rows
from tests.reference_accounting.orders import parse_orders

pytestmark = pytest.mark.golden


def event_of(params: dict[str, Any]) -> SampledGaussianEvent:
    rate = SamplingRate.at_least(params["q"])
    return SampledGaussianEvent(
        sampling_rate=rate, noise_multiplier=float(params["noise_multiplier"])
    )


def rows(method: str) -> list[dict[str, Any]]:
    return [
        row for row in golden_rows(method) if row["mechanism"] in {"poisson_gaussian", "ledger"}
    ]


def orders_of(params: dict[str, Any]) -> list[float]:
    return parse_orders(params["orders"])


def test_rdp_per_step() -> None:
    found = rows("rdp_per_step")
    assert len(found) >= 20
    for row in found:
        params = row["params"]
        rdp = rdp_at(event_of(params), params["alpha"])
        assert np.isclose(rdp, row["value"], rtol=row["rtol"], atol=0), row["id"]


def test_charged_costs_are_above_the_truth_and_close_at_integers() -> None:
    for row in rows("rdp_per_step"):
        alpha, truth = row["params"]["alpha"], row["value"]
        if alpha not in ORDERS:
            continue
        unit = event_cost(event_of(row["params"])).units[ORDERS.index(alpha)]
        assert unit is not None
        assert unit >= truth * UNIT * (1 + 5e-10), row["id"]
        if alpha == int(alpha):
            assert unit <= truth * UNIT * (1 + 2e-9) + 1, row["id"]


def test_conversions() -> None:
    found = golden_rows("eps_CKS(clamped at 0)")
    assert len(found) >= 3
    for row in found:
        p = row["params"]
        epsilon = epsilon_from_rdp(p["alpha"], p["rdp"], p["delta"])
        assert math.isclose(epsilon, row["value"], abs_tol=row["atol"], rel_tol=0), row["id"]


def test_composed_rdp() -> None:
    found = [row for row in rows("rdp+CKS") if "T" in row["params"]]
    assert len(found) >= 5
    for row in found:
        p = row["params"]
        epsilon = min(
            epsilon_from_rdp(a, rdp_at(event_of(p), a) * p["T"], p["delta"]) for a in orders_of(p)
        )
        assert math.isclose(epsilon, row["value"], abs_tol=row["atol"], rel_tol=0), row["id"]


def test_steps_for_epsilon_ten() -> None:
    found = [row for row in rows("rdp+CKS") if "eps" in row["params"]]
    assert len(found) >= 2
    for row in found:
        p = row["params"]
        most = max(
            (p["eps"] - epsilon_from_rdp(a, 0.0, p["delta"])) / rdp_at(event_of(p), a)
            for a in orders_of(p)
            if epsilon_from_rdp(a, 0.0, p["delta"]) > 0
        )
        assert abs(math.floor(most) - row["value"]) <= row["atol"], row["id"]


def test_pld() -> None:
    found = rows("pld_exact(remove dominates)")
    assert len(found) >= 4
    for row in found:
        p = row["params"]
        epsilon = pld_epsilon(event_of(p), p["T"], p["delta"])
        assert -row["atol_below"] <= epsilon - row["value"] <= row["atol_above"], row["id"]


def test_ledger_thresholds() -> None:
    found = rows("B(alpha)=eps-log(1-1/a)+log(w d a)/(a-1)")
    assert len(found) >= 2
    for row in found:
        p = row["params"]
        delta = Decimal(p["weight"]) * Decimal(p["delta"])
        threshold = float(order_threshold(p["alpha"], p["eps"], delta))
        assert math.isclose(threshold, row["value"], abs_tol=row["atol"], rel_tol=0), row["id"]


def test_published_mnist_workload_under_the_rule() -> None:
    # ACCOUNTING 4.3: 3,954,325 steps with the exact divergence at 3.5.
    rule = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
    step = event_cost(
        SampledGaussianEvent(sampling_rate=SamplingRate.at_least(1 / 1200), noise_multiplier=1.1)
    )
    assert rule.favourite == 3.5
    steps = rule.affordable_steps(Cost.zero(), Cost.zero(), step, 10**8)
    assert 3_954_325 - 1 <= steps <= 3_954_325


@pytest.mark.parametrize(("epsilon", "expected"), [(10.0, 0.532), (1.0, 4.09), (0.2, 18.1)])
def test_multipliers_of_one_plain_release(epsilon: float, expected: float) -> None:
    rule = BudgetRule.register(Budget(epsilon=epsilon, delta=1e-5))
    found = noise_multiplier_for(rule, Cost.zero(), lambda z: GaussianEvent(noise_multiplier=z), 1)
    assert math.isclose(found, expected, rel_tol=2e-3)
