"""Fractional orders: the quadrature agrees with 40 digits, and the bound is above the truth."""

from __future__ import annotations

import pytest

from curator.accounting.cost import UNIT, event_cost
from curator.accounting.events.sampled_gaussian import (
    SampledGaussianEvent,
    fractional_rdp_bound,
    sampled_gaussian_rdp,
)
from curator.accounting.orders import ORDERS
from curator.accounting.sampled_rdp import sampled_gaussian_rdp_at
from curator.accounting.second_opinion import divergence_by_definition
from curator.privacy.event_numbers import SamplingRate

GRID = [
    *((1e-18, 0.3), (1e-9, 1.0), (1e-6, 100.0), (1 / 1200, 0.5), (1 / 1200, 1.1)),
    *((0.03, 1.0), (0.5, 0.7), (0.9, 0.3), (0.5, 1e5), (0.3, 5.73), (0.01, 0.1)),
]


@pytest.mark.parametrize(("q", "z"), GRID)
@pytest.mark.parametrize("alpha", [1.5, 3.5])
def test_the_quadrature_agrees_with_forty_digits(q: float, z: float, alpha: float) -> None:
    event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)
    truth = divergence_by_definition(event, alpha)
    rate = float(event.sampling_rate)
    assert sampled_gaussian_rdp_at(rate, z, alpha) == pytest.approx(truth, rel=1e-12)
    bound = fractional_rdp_bound(rate, z, alpha)
    assert truth <= bound * (1 + 1e-11)
    assert bound <= truth * (1 + 1e-4)
    charged = event_cost(event).units[ORDERS.index(alpha)]
    assert charged is not None
    assert charged >= truth * UNIT


@pytest.mark.parametrize(("q", "z"), GRID)
@pytest.mark.parametrize("alpha", [2, 3, 8])
def test_the_quadrature_agrees_with_the_sum_at_integers(q: float, z: float, alpha: int) -> None:
    expected = sampled_gaussian_rdp(q, z, alpha)
    assert sampled_gaussian_rdp_at(q, z, float(alpha)) == pytest.approx(expected, rel=1e-10)


def test_little_noise_is_not_charged_at_the_chord() -> None:
    """At z = .5 the chord between orders 3 and 4 is 7.5 times the divergence at 3.5."""
    bound = fractional_rdp_bound(1 / 1200, 0.5, 3.5)
    assert bound == pytest.approx(3.5764e-4, rel=1e-4)
