"""Sums over Poisson samples: what they cost, by several means."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.accounting.cost import UNIT, event_cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.event_text import event_from_text, event_to_text
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sampled_sum import SampledSumEvent, mixed_rdp
from curator.accounting.explain import opacus_epsilon
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import rdp_at
from curator.accounting.rule import BudgetRule
from curator.accounting.second_opinion import second_epsilon
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate


def event(
    q: float = 0.034, z: float = 1.9, *, overflow: float = 0.0, releases: int = 1
) -> SampledSumEvent:
    return SampledSumEvent(
        sampling_rate=SamplingRate.at_least(q),
        noise_multiplier=z,
        overflow_probability=overflow,
        num_releases=releases,
    )


def gaussian(q: float = 0.034, z: float = 1.9) -> SampledGaussianEvent:
    return SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)


@pytest.mark.parametrize(("q", "z"), [(0.034, 1.9), (1e-3, 0.6), (1.0, 5.0), (0.7, 0.8)])
def test_without_overflow_each_release_is_a_sampled_gaussian(q: float, z: float) -> None:
    assert event_cost(event(q, z)) == event_cost(gaussian(q, z))
    assert event_cost(event(q, z, releases=7)) == event_cost(gaussian(q, z)) * 7
    assert rdp_at(event(q, z, releases=7), 3.5) == 7 * rdp_at(gaussian(q, z), 3.5)


def test_a_sample_that_never_fits_costs_twice_the_distance() -> None:
    assert event_cost(event(overflow=1.0)) == event_cost(gaussian(z=1.9 / 2))


@settings(max_examples=40, deadline=None)
@given(
    q=st.floats(1e-4, 1.0),
    z=st.floats(0.4, 20.0),
    overflow=st.floats(0.0, 1.0),
    order=st.sampled_from(ORDERS),
)
def test_overflow_costs_something_and_no_more_than_twice_the_distance(
    q: float, z: float, overflow: float, order: float
) -> None:
    index = ORDERS.index(order)
    low, middle, high = (
        event_cost(one).units[index]
        for one in (event(q, z), event(q, z, overflow=overflow), event(q, z, overflow=1.0))
    )
    if high is not None:
        assert low is not None
        assert middle is not None
        assert low * (1 - 1e-9) <= middle <= high * (1 + 1e-9)


@pytest.mark.parametrize("overflow", [1e-18, 1e-9, 0.3])
@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.5, 6.0, 64.0])
def test_the_mixture_is_one_of_moments(alpha: float, overflow: float) -> None:
    within, beyond = rdp_at(gaussian(), alpha), rdp_at(gaussian(z=0.95), alpha)
    with mpmath.workdps(50):
        a, p = mpmath.mpf(alpha) - 1, mpmath.mpf(overflow)
        mean = (1 - p) * mpmath.exp(a * within) + p * mpmath.exp(a * beyond)
        wanted = float(mpmath.log(mean) / a)
    assert mixed_rdp(within, beyond, overflow, alpha) == pytest.approx(wanted, rel=1e-12)


def test_the_charge_is_above_the_truth_by_brute_force() -> None:
    """Units in {absent, +1} of a sum with one place: every law of two units against three."""
    z, q, alpha = 1.2, 0.3, 3
    grid = [x / 50 for x in range(-600, 900)]

    def law(units: int) -> list[float]:
        """Return the density of the sum when at most one sampled unit is kept, all of them 1."""
        none = (1 - q) ** units
        return [
            (
                none * math.exp(-x * x / (2 * z * z))
                + (1 - none) * math.exp(-((x - 1) ** 2) / (2 * z * z))
            )
            for x in grid
        ]

    for fewer in (0, 1, 2):
        first, second = law(fewer + 1), law(fewer)
        total = sum(second)
        moment = sum(s * (f / s) ** alpha for f, s in zip(first, second, strict=True)) / total
        full = 1 - (1 - q) ** fewer
        charged = event_cost(event(q, z, overflow=full)).units[ORDERS.index(float(alpha))]
        assert charged is not None
        assert math.log(moment) / (alpha - 1) <= charged / UNIT


def test_every_accountant_agrees() -> None:
    five, rule = (
        event(overflow=1e-15, releases=5),
        BudgetRule.register(Budget(epsilon=10, delta=1e-5)),
    )
    ledger = rule.spent_epsilon(event_cost(five) * 2000)
    assert second_epsilon(rule, [(five, 2000)]) == pytest.approx(ledger, rel=1e-6)
    alone = opacus_epsilon([(five, 2000)], 1e-5)
    assert alone is not None
    assert alone == pytest.approx(opacus_epsilon([(gaussian(), 10_000)], 1e-5), rel=1e-12)
    assert alone == pytest.approx(ledger, rel=0.06)  # one order with all of delta
    loss = pld_epsilon(five, 2000, 1e-5)
    assert loss == pytest.approx(pld_epsilon(gaussian(), 10_000, 1e-5), rel=1e-3)
    assert loss < min(alone, ledger)


def test_overflow_shows_in_the_loss_distribution() -> None:
    assert pld_epsilon(event(overflow=0.5), 10, 1e-5) > pld_epsilon(event(), 10, 1e-5)
    wide = pld_epsilon(event(overflow=1.0), 10, 1e-5)
    assert wide == pytest.approx(pld_epsilon(gaussian(z=0.95), 10, 1e-5), rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [{"overflow": -0.1}, {"overflow": 1.1}, {"overflow": math.nan}, {"releases": 0}, {"z": 0.0}],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        event(**changes)  # type: ignore[arg-type]


def test_text_gives_the_event_back_and_words_name_every_number() -> None:
    one = event(overflow=1e-17, releases=5)
    assert event_from_text(event_to_text(one)) == one
    words = one.in_words()
    for piece in ("5 Gaussian releases", "0.034", "1.9", "1e-17"):
        assert piece in words
