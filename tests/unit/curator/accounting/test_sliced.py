from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from curator.accounting.calibrate import noise_multiplier_for
from curator.accounting.cost import UNIT, Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
    log_projection_moment,
)
from curator.accounting.hypergeometric import log_1f1
from curator.accounting.orders import ORDERS
from curator.accounting.overflow import overflow_probability
from curator.accounting.rdp import rdp_at
from curator.accounting.rule import BudgetRule
from curator.accounting.second_opinion import divergence_by_definition, second_epsilon
from curator.accounting.sliced_pld import squared_length_rule
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate
from tests.reference_accounting.contour import contour_epsilon
from tests.reference_accounting.mixture import sliced


def base(d: int = 64, k: int = 40, z: float = 1.2) -> SlicedGaussianEvent:
    return SlicedGaussianEvent(dimension=d, num_projections=k, noise_multiplier=z)


def sampled(
    q: float = 0.01, overflow: float = 0.0, event: SlicedGaussianEvent | None = None
) -> SampledSlicedGaussianEvent:
    return SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate.at_least(q),
        base=base() if event is None else event,
        overflow_probability=overflow,
    )


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_the_moment_is_an_average_over_directions(alpha: float) -> None:
    """The relative spread of one draw is below 2, of 2e5 draws .0045: 6 of those, chance 2e-9."""
    d, k, z = 5, 3, 1.4
    directions = np.random.default_rng(3).normal(size=(200_000, k, d))
    lengths = np.sum(directions[:, :, 0] ** 2 / np.sum(directions**2, axis=2), axis=1)
    moment = np.mean(np.exp(alpha * (alpha - 1) * lengths / (2 * z * z)))
    divergence = rdp_at(base(d, k, z), alpha)
    assert math.exp((alpha - 1) * divergence) == pytest.approx(moment, rel=0.027)


@pytest.mark.parametrize("alpha", [2.0, 3.5, 48.0])
def test_in_one_dimension_it_is_a_gaussian(alpha: float) -> None:
    z, k, q = 3.0, 7, 0.03
    plain = GaussianEvent(noise_multiplier=z / math.sqrt(k))
    assert rdp_at(base(1, k, z), alpha) == pytest.approx(rdp_at(plain, alpha), rel=1e-13)
    if alpha == int(alpha):
        small = SampledGaussianEvent(
            sampling_rate=SamplingRate.at_least(q), noise_multiplier=z / math.sqrt(k)
        )
        ours = rdp_at(sampled(q, event=base(1, k, z)), alpha)
        assert ours == pytest.approx(rdp_at(small, alpha), rel=1e-12)


def test_in_one_dimension_the_loss_distribution_is_the_gaussians() -> None:
    z, k = 8.0, 4
    for q, steps in ((1.0, 10), (0.02, 3000)):
        whole: PrivacyEvent = GaussianEvent(noise_multiplier=z / 2)
        if q < 1:
            rate = SamplingRate.at_least(q)
            whole = SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z / 2)
        theirs = pld_epsilon(whole, steps, 1e-5)
        assert pld_epsilon(sampled(q, event=base(1, k, z)), steps, 1e-5) == pytest.approx(
            theirs, rel=2e-3
        )


@pytest.mark.parametrize("event", [base(), sampled(), sampled(overflow=1e-6), sampled(1.0, 0.2)])
def test_forty_digits_agree(event: PrivacyEvent) -> None:
    for alpha in ORDERS:
        truth = divergence_by_definition(event, alpha)
        assert rdp_at(event, alpha) == pytest.approx(truth, rel=1e-11), alpha


@pytest.mark.parametrize("event", [base(), sampled(), sampled(overflow=1e-6)])
def test_what_is_charged_is_above_the_truth(event: PrivacyEvent) -> None:
    for alpha, unit in zip(ORDERS, event_cost(event).units, strict=True):
        truth = divergence_by_definition(event, alpha)
        assert unit is not None
        assert truth * (1 + 5e-10) <= unit / UNIT <= truth * (1 + 2e-9) + 2 / UNIT


def test_fractional_orders_are_above_the_truth() -> None:
    mixture = sliced(0.01, 64, 40, 1.2)
    for alpha in (1.5, 2.5, 3.5):
        assert rdp_at(sampled(), alpha) >= mixture.rdp(alpha, "remove") * (1 - 1e-9)


def test_between_integers_the_bound_is_close_and_the_chord_of_log_a_is_not() -> None:
    mixture = sliced(0.01, 64, 40, 1.2)
    for alpha, worse in ((1.5, 1.3), (2.5, 1.05)):
        truth = mixture.rdp(alpha, "remove")
        below = math.floor(alpha)
        logs = [(n - 1) * rdp_at(sampled(), n) if n > 1 else 0.0 for n in (below, below + 1)]
        assert rdp_at(sampled(), alpha) <= 1.02 * truth
        assert sum(logs) / 2 / (alpha - 1) >= worse * truth


@pytest.mark.parametrize("rate", [1e-9, 0.3, 1 - 2**-20, 1.0])
def test_between_integers_it_is_never_above_not_sampling(rate: float) -> None:
    event = SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate.at_least(rate), base=base(), overflow_probability=0.0
    )
    for alpha in (1.01, 1.5, 1.99, 2.01, 3.5):
        assert 0 < rdp_at(event, alpha) <= rdp_at(base(), alpha) * (1 + 1e-12)


@pytest.mark.parametrize("b", [0.5, 1.0, 9.0, 397.0, 4100.0])
def test_the_moment_at_large_arguments_is_bounded_closely(b: float) -> None:
    for t in (0.0, 1.0, 1e6, 1e7, 1e8, 1e9):
        exact, used = log_1f1(b, t), log_projection_moment(b, t)
        assert exact * (1 - 1e-14) <= used <= exact * (1 + 2e-11)


def test_little_noise_is_priced_without_long_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may ask for a price: 7 seconds for it would be an attack."""
    longest: list[float] = []

    def counted(b: float, t: float) -> float:
        longest.append(t)
        return log_1f1(b, t)

    monkeypatch.setattr("curator.accounting.events.sliced_gaussian.log_1f1", counted)
    event = sampled(overflow=1e-30, event=base(784, 1000, 0.0101))
    assert all(unit is not None for unit in event_cost(event).units)
    assert max(longest) < 3e7


def test_removing_is_the_worse_direction() -> None:
    mixture = sliced(0.01, 64, 40, 1.2)
    for alpha in (2, 4, 6):
        assert mixture.rdp(alpha, "add") <= mixture.rdp(alpha, "remove")
        assert rdp_at(sampled(), alpha) == pytest.approx(mixture.rdp(alpha, "remove"), rel=1e-9)


def test_overflow_is_between_no_overflow_and_twice_the_row() -> None:
    twice = sampled(event=base(z=0.6))
    for alpha in (2.0, 3.5, 24.0):
        divergences = [rdp_at(sampled(overflow=p), alpha) for p in (0.0, 1e-9, 0.01, 1.0)]
        assert divergences == sorted(divergences)
        assert divergences[-1] == pytest.approx(rdp_at(twice, alpha), rel=1e-12)


@pytest.mark.parametrize(
    ("size", "q", "capacity"), [(60_000, 100 / 60_000, 200), (1000, 0.1, 101), (50, 0.5, 50)]
)
def test_the_chance_of_overflow_is_an_upper_bound(size: int, q: float, capacity: int) -> None:
    found = overflow_probability(size, SamplingRate.at_least(q), capacity)
    truth = float(binom.sf(capacity - 1, size, q))
    assert truth * (1 - 1e-9) <= found <= min(1.0, 30 * truth)
    assert overflow_probability(size, SamplingRate.at_least(q), size + 1) == 0.0


def test_a_capacity_below_the_mean_always_overflows() -> None:
    assert overflow_probability(1000, SamplingRate.at_least(0.5), 400) == 1.0
    assert overflow_probability(10, SamplingRate.at_least(1.0), 10) == 1.0


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, 1 << 33])
def test_bad_sizes_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="max_size and capacity"):
        overflow_probability(bad, SamplingRate.at_least(0.5), 10)
    with pytest.raises(ValueError, match="max_size and capacity"):
        overflow_probability(10, SamplingRate.at_least(0.5), bad)


def test_the_quadrature_over_lengths_has_the_exact_moments() -> None:
    for d, k in ((2, 1), (64, 3), (784, 1000), (8192, 2000)):
        squares, weights = squared_length_rule(d, k)
        assert np.sum(weights) == pytest.approx(1.0, rel=1e-12)
        assert np.sum(weights * squares) == pytest.approx(k / d, rel=1e-12)
        variance = float(Fraction(2 * k * (d - 1), d * d * (d + 2)))
        assert np.sum(weights * (squares - k / d) ** 2) == pytest.approx(variance, rel=1e-9)
    assert [len(rule) for rule in squared_length_rule(1, 9)] == [1, 1]


@pytest.mark.parametrize(("k", "z"), [(1, 0.9), (40, 5.0)])
def test_the_loss_distribution_is_above_the_contour_integral(k: int, z: float) -> None:
    event = sampled(0.02, event=base(16, k, z))
    for steps in (3000, 20_000):
        reported = pld_epsilon(event, steps, 1e-5)
        mixture = sliced(0.02, 16, k, z)
        exact = contour_epsilon(mixture, steps, 1e-5, "remove", reported)
        assert exact - 1e-7 <= reported <= exact + 1e-3


def test_loss_distributions_do_not_exceed_the_renyi_bound_at_extremes() -> None:
    events: list[PrivacyEvent] = [
        base(784, 1000, 1e-2),
        sampled(1e-9, event=base(1 << 20, 1, 1e6)),
        sampled(0.3, 1e-9, base(784, 1000, 1000.0)),
        sampled(1.0, event=base(784, 1000, 1000.0)),
    ]
    for event in events:
        for steps in (1, 1000, 10**9):
            assert 0 <= pld_epsilon(event, steps, 1e-5) <= renyi_epsilon(event, steps, 1e-5)


def test_the_second_opinion_agrees() -> None:
    rule = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
    event, setup = (
        sampled(1 / 600, 1e-19, base(784, 1000, 0.84)),
        GaussianEvent(noise_multiplier=20.0),
    )
    ours = rule.spent_epsilon(event_cost(event) * 60_000 + event_cost(setup))
    second = second_epsilon(rule, [(event, 60_000), (setup, 1)])
    assert ours * (1 - 1e-8) <= second <= ours


def test_calibrated_noise_is_admitted_and_hardly_more() -> None:
    rule = BudgetRule.register(Budget(epsilon=2.0, delta=1e-5))

    def event_of(z: float) -> PrivacyEvent:
        return sampled(0.01, event=base(z=z))

    z = noise_multiplier_for(rule, Cost.zero(), event_of, 5000)
    assert rule.admits(event_cost(event_of(z)) * 5000)
    assert not rule.admits(event_cost(event_of(z * (1 - 2e-6))) * 5000)


BAD_COUNTS = [0, -1, 1.0, True, None, "8", (1 << 20) + 1, 10**400, math.nan]


@pytest.mark.parametrize("bad", BAD_COUNTS)
def test_bad_shapes_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="dimension"):
        base(d=bad)
    with pytest.raises(ValueError, match="num_projections"):
        base(k=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-9, 1.1, True, None, "0"])
def test_a_bad_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="overflow_probability"):
        sampled(overflow=bad)
