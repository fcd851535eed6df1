"""Sampled sums with a last Gaussian release: one cost, by several accountants."""

from __future__ import annotations

import json

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from curator.accounting.calibrate import noise_multiplier_for
from curator.accounting.cost import Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.event_text import event_from_text, event_to_text
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.explain import DescribedRun, explain, explain_lines, opacus_epsilon
from curator.accounting.rdp import rdp_at
from curator.accounting.rule import BudgetRule
from curator.accounting.second_opinion import divergence_by_definition, second_epsilon
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

RULE = BudgetRule.register(Budget(epsilon=10.0, delta=1e-5))
LAST = GaussianEvent(noise_multiplier=1.6)


def sums(
    *, rate: float = 0.25, noise: float = 3.6, releases: int = 600, overflow: float = 1e-17
) -> SampledSumEvent:
    return SampledSumEvent(
        sampling_rate=SamplingRate.at_least(rate),
        noise_multiplier=noise,
        overflow_probability=overflow,
        num_releases=releases,
    )


def event(of: SampledSumEvent | None = None, noise: float = 1.6) -> ComposedEvent:
    return ComposedEvent(in_turn=(of or sums(), GaussianEvent(noise_multiplier=noise)))


def test_the_cost_is_that_of_its_parts() -> None:
    whole = event()
    assert whole.parts == (sums(), LAST)
    assert LAST.parts == (LAST,)
    assert event_cost(whole) == event_cost(sums()) + event_cost(LAST)
    for order in (1.5, 3.0, 17.0):
        parts = rdp_at(sums(), order) + rdp_at(LAST, order)
        assert rdp_at(whole, order) == pytest.approx(parts, rel=1e-14)
        assert divergence_by_definition(whole, order) == pytest.approx(parts, rel=1e-9)


def test_every_accountant_agrees() -> None:
    whole = event()
    ledger = RULE.spent_epsilon(event_cost(whole))
    assert second_epsilon(RULE, [(whole, 1)]) == pytest.approx(ledger, rel=1e-6)
    both: list[tuple[PrivacyEvent, int]] = [(sums(), 1), (LAST, 1)]
    assert second_epsilon(RULE, [(whole, 1)]) == second_epsilon(RULE, both)
    alone = opacus_epsilon([(whole, 1)], 1e-5)
    assert alone is not None
    assert alone == opacus_epsilon(both, 1e-5)
    assert pld_epsilon(whole, 1, 1e-5) < alone < renyi_epsilon(whole, 1, 1e-5) * 1.001
    assert renyi_epsilon(whole, 1, 1e-5) < ledger


@pytest.mark.parametrize(
    ("rate", "noise", "releases", "last", "times"),
    [(0.25, 3.6, 600, 1.6, 1), (1 / 120, 0.8, 408, 2.0, 1), (0.1, 2.0, 50, 1.0, 2)],
)
def test_the_loss_distribution_is_that_of_an_independent_accountant(
    rate: float, noise: float, releases: int, last: float, times: int
) -> None:
    ours = pld_epsilon(event(sums(rate=rate, noise=noise, releases=releases), last), times, 1e-5)
    theirs = PLDAccountant()
    sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    theirs.compose(sampled, releases * times)
    theirs.compose(dp_accounting.GaussianDpEvent(last), times)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-4)


def test_either_part_alone_costs_less_and_overflow_shows() -> None:
    whole = pld_epsilon(event(), 1, 1e-5)
    assert whole > pld_epsilon(sums(), 1, 1e-5) > 0
    assert whole > pld_epsilon(LAST, 1, 1e-5) > 0
    assert pld_epsilon(event(sums(overflow=0.3)), 1, 1e-5) > whole
    loud = event(noise=0.05)  # no distribution of these losses: the Renyi bound stands in
    assert pld_epsilon(loud, 1, 1e-5) == renyi_epsilon(loud, 1, 1e-5)


def test_noise_is_calibrated_on_either_part() -> None:
    def of_sums(noise: float) -> ComposedEvent:
        return event(sums(noise=noise))

    least = noise_multiplier_for(RULE, Cost.zero(), of_sums, 1)
    assert RULE.admits(event_cost(of_sums(least)))
    assert not RULE.admits(event_cost(of_sums(least * 0.999)))


def test_text_gives_the_event_back_and_words_name_every_number() -> None:
    whole = event()
    text = event_to_text(whole)
    assert event_from_text(text) == whole
    assert event_to_text(event_from_text(text)) == text
    for piece in ("600 Gaussian releases", "0.25", "3.6", "1.6", "; then one Gaussian release"):
        assert piece in whole.in_words()


@pytest.mark.parametrize(
    "change",
    [
        {"sums": {"event": "gaussian", "noise_multiplier": 1.0}},
        {"sums": None},
        {"noise_multiplier": 0.0},
        {"noise_multiplier": "1"},
    ],
)
def test_other_text_is_no_event(change: dict[str, object]) -> None:
    table = json.loads(event_to_text(event())) | change
    with pytest.raises(ValueError, match=r"privacy event|noise_multiplier"):
        event_from_text(json.dumps(table))


def test_a_run_is_explained() -> None:
    run = DescribedRun(
        mechanism="dp-merf-ae",
        sensitivity="",
        setup=event(),
        step=NoEvent(),
        num_steps=1,
        budget=RULE.budget,
    )
    why = explain(run, cross_check=True)
    assert why.affordable_steps is None
    assert why.fits
    assert why.pld_epsilon < why.ledger_epsilon <= 10.0
    assert any("they are free" in line for line in explain_lines(why))
