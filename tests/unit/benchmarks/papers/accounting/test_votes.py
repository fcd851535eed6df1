"""How many votes the published noise affords: values computed elsewhere from the same events."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.stats import norm

from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.votes import PublishedVotes, afforded_votes, gaussian_mu
from benchmarks.papers.accounting.words import setting_lines
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.explain import explain

DELTA = 1e-5
G_PATE: dict[float, dict[str, Any]] = {
    10.0: {"vote_noise": 100, "threshold_noise": 600, "num_projections": 10, "num_samples": 30},
    1.0: {"vote_noise": 1000, "threshold_noise": 3000, "num_projections": 10, "num_samples": 15},
}


@pytest.mark.parametrize(("epsilon", "mu"), [(10.0, 2.0004), (1.0, 0.2681)])
def test_the_mu_of_a_budget(epsilon: float, mu: float) -> None:
    found = gaussian_mu(epsilon, DELTA)
    assert found == pytest.approx(mu, abs=5e-5)
    shift = epsilon / found
    delta = norm.cdf(found / 2 - shift) - math.exp(epsilon) * norm.cdf(-found / 2 - shift)
    assert delta == pytest.approx(DELTA, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "votes", "batches"), [(10.0, 19_734, 66), (1.0, 34_048, 227)])
def test_the_votes_of_g_pate(epsilon: float, votes: int, batches: int) -> None:
    given = G_PATE[epsilon]
    run = PublishedVotes(
        vote_noise=given["vote_noise"],
        threshold_noise=given["threshold_noise"],
        counts_all_sides=True,
        votes_per_image=10,
        images_per_batch=given["num_samples"],
    )
    found = afforded_votes(run, epsilon, DELTA)
    assert found.num_votes == pytest.approx(votes, rel=2e-3)
    assert found.num_images == pytest.approx(votes / 10, rel=2e-3)
    assert round(found.num_batches) == batches


@pytest.mark.parametrize(
    ("epsilon", "noise", "labels"),
    [
        *[(10.0, noise, labels) for noise, labels in ((40, 6.4e3), (100, 40.0e3), (400, 640e3))],
        *[(1.0, noise, labels) for noise, labels in ((40, 115), (100, 719), (400, 11.5e3))],
    ],
)
def test_the_labels_of_pate_gan(epsilon: float, noise: float, labels: float) -> None:
    run = PublishedVotes(
        vote_noise=noise,
        threshold_noise=None,
        counts_all_sides=False,
        votes_per_image=1,
        images_per_batch=64,
    )
    assert afforded_votes(run, epsilon, DELTA).num_votes == pytest.approx(labels, rel=1e-2)


@pytest.mark.parametrize("epsilon", [10.0, 1.0])
def test_they_spend_the_budget_and_one_more_in_a_hundred_does_not_fit(epsilon: float) -> None:
    """By loss distributions, which is another computation."""
    run = PublishedVotes(
        vote_noise=100,
        threshold_noise=600,
        counts_all_sides=True,
        votes_per_image=10,
        images_per_batch=30,
    )
    votes = afforded_votes(run, epsilon, DELTA).num_votes
    event = GaussianEvent(noise_multiplier=1 / run.mu)
    assert pld_epsilon(event, votes, DELTA) == pytest.approx(epsilon, rel=2e-3)
    assert pld_epsilon(event, math.ceil(1.01 * votes), DELTA) > epsilon


def test_they_are_explained_and_not_offered() -> None:
    table = {"mechanism": "g-pate-published", "parameters": G_PATE[10.0], "num_steps": 19_734}
    setting = read_setting(table, {"epsilon": 10.0, "delta": DELTA})
    text = "\n".join(setting_lines(setting))
    assert "19,734 whatever they are" in text
    assert "1,973 images in 66 batches" in text
    affordable = explain(setting.run, cross_check=False).affordable_steps
    assert affordable is not None
    assert 0.8 < affordable / 19_734 < 1  # the ledger's rule
    labels = {"vote_noise": 100, "num_samples": 64}
    table = {"mechanism": "pate-gan-published", "parameters": labels}
    setting = read_setting(table, {"epsilon": 1.0, "delta": DELTA})
    assert "718 whatever they are" in "\n".join(setting_lines(setting))


@pytest.mark.parametrize("key", ["vote_noise", "threshold_noise", "num_projections", "num_samples"])
@pytest.mark.parametrize("bad", [0, -1, True, None, "1", math.nan, math.inf, 10**30])
def test_bad_numbers_are_refused(key: str, bad: object) -> None:
    parameters = {**G_PATE[10.0], key: bad}
    table = {"mechanism": "g-pate-published", "parameters": parameters}
    with pytest.raises(ValueError, match=r"\w"):
        read_setting(table, {"epsilon": 10.0, "delta": DELTA})
