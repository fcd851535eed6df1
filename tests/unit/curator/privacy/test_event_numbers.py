"""Events refuse numbers that no accountant should see."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate, check_num_steps

BAD_NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-3, 1e9, "1", None, True]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_a_bad_noise_multiplier_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="noise_multiplier"):
        GaussianEvent(noise_multiplier=bad)
    with pytest.raises(ValueError, match="noise_multiplier"):
        SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.5), noise_multiplier=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -0.1, 1.0000001])
def test_a_bad_sampling_rate_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="sampling_rate"):
        SamplingRate.at_least(bad)


@pytest.mark.parametrize("bad", [0, -1, 10**9 + 1, 1.5, True])
def test_a_bad_number_of_steps_is_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="num_steps"):
        check_num_steps(bad)


@pytest.mark.parametrize("rate", [1e-18, 1 / 1200, 1 / 3, 0.5, 1.0, Fraction(50, 60000)])
def test_the_charged_rate_is_never_below_the_asked_one(rate: float | Fraction) -> None:
    dyadic = SamplingRate.at_least(rate)
    assert dyadic.exact >= Fraction(rate)
    assert dyadic.exact - Fraction(rate) < Fraction(1, 1 << 64)
    assert Fraction(float(dyadic)) >= dyadic.exact


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        *((0, 1e-5), (-1, 1e-5), (20.1, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (True, 1e-5)),
        *((1, 0), (1, 1e-12), (1, 0.5), (1, math.nan)),
    ],
)
def test_a_bad_budget_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        Budget(epsilon=epsilon, delta=delta)
