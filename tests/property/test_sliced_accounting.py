"""What holds for every sliced Gaussian."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from curator.accounting.cost import Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.event_text import event_from_text, event_to_text
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.rule import BudgetRule
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

unhurried = settings(deadline=None, max_examples=25)
slow = settings(deadline=None, max_examples=8)
rates = st.floats(1e-6, 1.0).map(SamplingRate.at_least)
bases = st.builds(
    SlicedGaussianEvent,
    dimension=st.integers(1, 1 << 20) | st.integers(1, 16),
    num_projections=st.integers(1, 1 << 20) | st.integers(1, 2000),
    noise_multiplier=st.floats(0.1, 100.0) | st.floats(0.1, 1e6),
)
overflows = st.just(0.0) | st.floats(0.0, 1.0) | st.floats(0.0, 1e-9)


def sampled(
    rate: SamplingRate, base: SlicedGaussianEvent, overflow: float = 0.0
) -> SampledSlicedGaussianEvent:
    return SampledSlicedGaussianEvent(sampling_rate=rate, base=base, overflow_probability=overflow)


def not_cheaper(dear: Cost, cheap: Cost) -> bool:
    """At no order cheaper, beyond the rounding that the inflation of every cost covers."""
    for a, b in zip(dear.units, cheap.units, strict=True):
        if a is not None and (b is None or (b - a) * 10**10 > b + 10**10):
            return False
    return True


@unhurried
@given(rates, bases, overflows)
def test_costs_are_finite_positive_integers(
    rate: SamplingRate, base: SlicedGaussianEvent, overflow: float
) -> None:
    units = event_cost(sampled(rate, base, overflow)).units
    assert all(unit is not None and unit > 0 for unit in units)


@unhurried
@given(rates, bases)
def test_sampling_never_costs_more_than_not_sampling(
    rate: SamplingRate, base: SlicedGaussianEvent
) -> None:
    assert not_cheaper(event_cost(base), event_cost(sampled(rate, base)))


@unhurried
@given(rates, rates, bases, overflows)
def test_a_larger_rate_is_never_cheaper(
    a: SamplingRate, b: SamplingRate, base: SlicedGaussianEvent, overflow: float
) -> None:
    low, high = sorted((a, b), key=lambda rate: rate.numerator)
    dear, cheap = sampled(high, base, overflow), sampled(low, base, overflow)
    assert not_cheaper(event_cost(dear), event_cost(cheap))


@unhurried
@given(rates, bases, st.floats(1.0, 100.0), st.integers(1, 5), st.integers(1, 5))
def test_less_noise_more_projections_and_fewer_dimensions_are_never_cheaper(
    rate: SamplingRate, base: SlicedGaussianEvent, noise: float, more: int, wider: int
) -> None:
    cheap = event_cost(sampled(rate, base))
    others = [
        SlicedGaussianEvent(
            dimension=max(1, base.dimension // wider),
            num_projections=min(1 << 20, base.num_projections * more),
            noise_multiplier=max(0.1, base.noise_multiplier / noise),
        )
    ]
    assert not_cheaper(event_cost(sampled(rate, others[0])), cheap)


@unhurried
@given(rates, bases, overflows, overflows)
def test_more_overflow_is_never_cheaper(
    rate: SamplingRate, base: SlicedGaussianEvent, a: float, b: float
) -> None:
    low, high = sorted((a, b))
    dear, cheap = sampled(rate, base, high), sampled(rate, base, low)
    assert not_cheaper(event_cost(dear), event_cost(cheap))


@unhurried
@given(rates, bases, st.integers(1, 10**9), st.integers(1, 10**9))
def test_more_steps_are_never_cheaper(
    rate: SamplingRate, base: SlicedGaussianEvent, a: int, b: int
) -> None:
    rule = BudgetRule.register(Budget(epsilon=5.0, delta=1e-6))
    step = event_cost(sampled(rate, base))
    few, many = sorted((a, b))
    assert 0 < rule.spent_epsilon(step * few) <= rule.spent_epsilon(step * many)


@unhurried
@given(st.floats(1e-3, 20.0), st.floats(1.0, 10.0), st.floats(1.0, 10.0), st.integers(1, 10**6))
def test_a_larger_budget_affords_no_fewer_steps(
    epsilon: float, wider: float, looser: float, units: int
) -> None:
    step = event_cost(
        SampledGaussianEvent(
            sampling_rate=SamplingRate.at_least(units / 10**6), noise_multiplier=2.0
        )
    )
    small = BudgetRule.register(Budget(epsilon=epsilon, delta=1e-6))
    large = BudgetRule.register(Budget(epsilon=min(20.0, epsilon * wider), delta=1e-6))
    # With the weights of one data set fixed, as they are once it is registered.
    fixed = BudgetRule(budget=large.budget, favourite=small.favourite, offsets=small.offsets)
    few = small.affordable_steps(Cost.zero(), Cost.zero(), step, 10**9)
    assert few <= fixed.affordable_steps(Cost.zero(), Cost.zero(), step, 10**9)


@slow
@given(
    st.floats(1e-3, 1.0).map(SamplingRate.at_least),
    st.integers(2, 2000),
    st.integers(1, 2000),
    st.floats(0.5, 20.0),
    st.integers(1, 5000),
)
def test_loss_distributions_never_exceed_the_renyi_bound(
    rate: SamplingRate, dimension: int, projections: int, z: float, steps: int
) -> None:
    base = SlicedGaussianEvent(dimension=dimension, num_projections=projections, noise_multiplier=z)
    event = sampled(rate, base)
    assert 0 <= pld_epsilon(event, steps, 1e-5) <= renyi_epsilon(event, steps, 1e-5)


@unhurried
@given(rates, bases, overflows)
def test_text_round_trip(rate: SamplingRate, base: SlicedGaussianEvent, overflow: float) -> None:
    events: list[PrivacyEvent] = [base, sampled(rate, base, overflow)]
    for event in events:
        assert event_from_text(event_to_text(event)) == event
