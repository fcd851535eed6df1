from __future__ import annotations

import math
import time
from fractions import Fraction

import pytest

from curator.accounting.cost import UNIT, Cost, event_cost, total_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.privacy.event_numbers import SamplingRate

ONE = Cost((1,) * len(ORDERS))
INFINITE = Cost((None, *(5,) * (len(ORDERS) - 1)))


def test_the_grid_is_pinned() -> None:
    assert len(ORDERS) == 23
    assert list(ORDERS) == sorted(set(ORDERS))
    assert ORDERS[:5] == (1.5, 2.0, 2.5, 3.0, 3.5)
    assert ORDERS[-7:] == (64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0)


def test_arithmetic() -> None:
    assert ONE + ONE * 3 == ONE * 4
    assert Cost.zero() == ONE * 0
    assert (ONE * 4).minus(ONE) == ONE * 3
    assert Cost.zero().is_zero
    assert not ONE.is_zero


def test_a_total_is_the_sum_of_the_products() -> None:
    uses = [(ONE, 2), (ONE * 7, 1), (ONE, 3), (INFINITE, 0)]
    assert total_cost(uses) == ONE * 12
    assert total_cost([]) == Cost.zero()
    assert total_cost([*uses, (INFINITE, 1)]).units[0] is None


def test_infinite_stays_infinite() -> None:
    assert (INFINITE + ONE).units[0] is None
    assert (INFINITE * 7).units[0] is None
    assert Cost.zero() == INFINITE * 0
    assert INFINITE.minus(ONE).units[0] is None
    assert INFINITE.minus(INFINITE).units[0] is None
    assert not INFINITE.is_zero


def test_nothing_goes_below_zero() -> None:
    for more in (ONE * 2, INFINITE):
        with pytest.raises(ValueError, match="below zero"):
            ONE.minus(more)


@pytest.mark.parametrize("times", [-1, 1.0, True])
def test_multiplied_by_counts_only(times: int) -> None:
    with pytest.raises(ValueError, match="integer"):
        _ = ONE * times


@pytest.mark.parametrize("units", [(1,), (-1,) * 23, (1.0,) * 23, (True,) * 23])
def test_malformed(units: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cost"):
        Cost(units)


def test_text_round_trip_beyond_64_bits() -> None:
    cost = Cost((None, 2**200, *range(len(ORDERS) - 2)))
    assert Cost.from_json(cost.to_json()) == cost


@pytest.mark.parametrize("item", ["-1", "1.5", "", " 1", "nan", "Infinity", 7, None, "²"])
def test_other_text_is_refused(item: object) -> None:
    with pytest.raises(ValueError, match="decimal text"):
        Cost.from_json([item] * len(ORDERS))


@pytest.mark.parametrize("share", [1.0, 0.5, 1 / 3, 0.9999, 1e-9])
def test_a_share_of_what_it_is_over_is_never_less(share: float) -> None:
    cost = event_cost(GaussianEvent(noise_multiplier=1.1)) + INFINITE
    over = cost.over(share)
    for unit, larger in zip(cost.units, over.units, strict=True):
        if unit is None or larger is None:
            assert unit is larger is None
        else:
            assert (larger - 1) * Fraction(share) < unit <= larger * Fraction(share)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, math.nan])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="a share"):
        ONE.over(share)


def test_a_gaussian_costs_its_divergence_rounded_up() -> None:
    for alpha, unit in zip(
        ORDERS, event_cost(GaussianEvent(noise_multiplier=1.1)).units, strict=True
    ):
        exact = Fraction(alpha) / (2 * Fraction(1.1) ** 2) * UNIT
        assert unit is not None
        assert exact < unit < exact * (1 + Fraction(2, 10**9)) + 1


def test_no_event_is_free_and_every_other_is_not() -> None:
    assert event_cost(NoEvent()).is_zero
    weakest = SampledGaussianEvent(sampling_rate=SamplingRate(1), noise_multiplier=1e6)
    assert all(unit is not None and unit >= 1 for unit in event_cost(weakest).units)


def test_no_sampling_at_all_is_a_gaussian() -> None:
    whole = SampledGaussianEvent(sampling_rate=SamplingRate(1 << 64), noise_multiplier=1.3)
    assert event_cost(whole) == event_cost(GaussianEvent(noise_multiplier=1.3))
    nearly = SampledGaussianEvent(sampling_rate=SamplingRate((1 << 64) - 1), noise_multiplier=1.3)
    assert event_cost(nearly) == event_cost(whole)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-3, 1e7, "1", True])
def test_bad_noise_is_refused_at_once(bad: float) -> None:
    started = time.perf_counter()
    with pytest.raises(ValueError, match="noise_multiplier"):
        event_cost(
            SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.01), noise_multiplier=bad)
        )
    with pytest.raises(ValueError, match="noise_multiplier"):
        event_cost(GaussianEvent(noise_multiplier=bad))
    assert time.perf_counter() - started < 0.1


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -0.1, 1.1])
def test_bad_rates_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="sampling_rate"):
        SamplingRate.at_least(bad)
