"""A secret draw of one part: what it costs, by several means, and against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from curator.accounting import second_opinion
from curator.accounting.cost import UNIT, event_cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.event_text import event_from_text, event_to_text
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent, hidden_part_rdp
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import rdp_at
from curator.accounting.rule import BudgetRule
from curator.accounting.second_opinion import divergence_by_definition, second_epsilon
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate
from tests.reference_accounting.replace_one import closed_form_rdp


def event(num_parts: int = 1000, z: float = 0.5) -> HiddenPartEvent:
    return HiddenPartEvent(num_parts=num_parts, noise_multiplier=z)


@pytest.mark.parametrize(
    ("num_parts", "z", "alpha"),
    [
        *((1000, 0.465, 1.5), (1000, 0.465, 8.0), (100, 0.63, 3.5), (10, 3.0, 8.0)),
        *((2, 0.3, 1.5), (2, 0.3, 3.5)),  # at 8 their digits take seconds
    ],
)
def test_the_charge_is_the_bound_of_forty_digits(num_parts: int, z: float, alpha: float) -> None:
    truth = divergence_by_definition(event(num_parts, z), alpha)
    found = hidden_part_rdp(num_parts, z, alpha)
    assert truth <= found * (1 + 1e-10)
    assert found == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("alpha", [1.5, 3.5, 8.0])
def test_the_charge_is_rounded_up(alpha: float) -> None:
    unit = event_cost(event(z=0.55)).units[ORDERS.index(alpha)]  # costs are kept: once for all
    bound = hidden_part_rdp(1000, 0.55, alpha)
    assert unit is not None
    assert bound < unit / UNIT < bound * (1 + 1e-8) + 2 / UNIT


@pytest.mark.parametrize("alpha", [2, 3, 5, 10])
@pytest.mark.parametrize("z", [0.5, 1.1, 5.0])
def test_below_the_closed_form_and_above_the_poisson_sample(alpha: int, z: float) -> None:
    moments = {j: j * (j - 1) / (2 * z * z) for j in range(2, alpha + 1)}
    found = hidden_part_rdp(1000, z, alpha)
    closed = closed_form_rdp(1e-3, alpha, moments)
    assert found <= min(closed * (1 + 1e-6), alpha / (2 * z * z))
    sampled = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(1e-3), noise_multiplier=z)
    assert found >= rdp_at(sampled, alpha) * (1 - 1e-9)


def test_with_one_part_nothing_is_hidden() -> None:
    assert event_cost(event(1, 2.0)) == event_cost(GaussianEvent(noise_multiplier=2.0))


@pytest.mark.parametrize("alpha", [1.5, 2.0, 5.0])
@pytest.mark.parametrize("seed", range(6))
def test_no_instance_exceeds_the_charge(seed: int, alpha: float) -> None:
    """Centres on a line, as far apart as they may be: the moment by quadrature, both ways."""
    generator = np.random.default_rng(seed)
    num_parts, z = int(generator.integers(2, 6)), float(generator.uniform(0.4, 2.0))
    centres = generator.choice([0.0, 1.0, float(generator.uniform())], num_parts)
    other = centres.copy()
    other[0] = 1.0 - centres[0]

    def law(x: float, means: np.ndarray) -> float:
        heights = np.exp(-((x - means) ** 2) / (2 * z * z))
        return float(heights.mean()) / (z * math.sqrt(2 * math.pi))

    def moment(x: float, first: np.ndarray, second: np.ndarray) -> float:
        return float(law(x, first) ** alpha * law(x, second) ** (1 - alpha))

    reach = 10 * z + alpha
    for pair in ((centres, other), (other, centres)):
        value, _ = quad(moment, -reach, 1 + reach, args=pair, limit=400, epsabs=1e-13)
        assert math.log(value) / (alpha - 1) <= hidden_part_rdp(num_parts, z, alpha) + 1e-9


@pytest.mark.parametrize(
    ("num_parts", "num_steps", "sigma"),
    [(1000, 20_000, 2.63), (1000, 2000, 2.15), (100, 2000, 3.57)],
)
def test_decoupled_critics_need_the_noise_that_was_computed_elsewhere(
    num_parts: int, num_steps: int, sigma: float
) -> None:
    step = event(num_parts, sigma / math.sqrt(32))
    assert pld_epsilon(step, num_steps, 1e-5) == pytest.approx(10.0, rel=1e-2)
    rule = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
    assert not rule.admits(event_cost(step) * num_steps)  # the rule of a ledger asks for more
    more = event(num_parts, 1.2 * sigma / math.sqrt(32))
    total = event_cost(more) * num_steps
    assert rule.admits(total)


def test_the_second_opinion_is_close_and_never_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_opinion, "ORDERS", ORDERS[:6])  # its digits take seconds an order
    rule = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
    second = second_epsilon(_Few(rule), [(event(1000, 0.55), 20_000)])  # type: ignore[arg-type]
    ours = rule.spent_epsilon(event_cost(event(1000, 0.55)) * 20_000)
    assert ours * (1 - 3e-3) <= second <= ours * (1 + 1e-6)


class _Few:
    """A rule of which the first orders' weights are seen."""

    def __init__(self, rule: BudgetRule) -> None:
        self.budget, self.weights = rule.budget, rule.weights[:6]


def test_text_and_words() -> None:
    assert event_from_text(event_to_text(event())) == event()
    assert "one of 1,000 parts" in event().in_words()


@pytest.mark.parametrize(("num_parts", "z"), [(0, 1.0), (1 << 21, 1.0), (10, 0.0), (True, 1.0)])
def test_bad_numbers_are_refused(num_parts: int, z: float) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        event(num_parts, z)
