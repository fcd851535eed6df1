"""What a published run with one hidden critic costs, as computed elsewhere from the same event."""

from __future__ import annotations

import json
import math

import pytest

from curator.accounting.declared import read_declared
from curator.accounting.explain import explain
from curator.accounting.explain_text import explain_lines
from curator.accounting.hidden_critic import HiddenCritic, hidden_critic_bounds
from curator.accounting.pld import pld_epsilon
from curator.privacy.event import GaussianEvent, SampledGaussianEvent, SamplingRate

PUBLISHED = {
    "mechanism": "gs-wgan-published",
    "parameters": {"num_critics": 1000, "num_samples": 32, "noise_multiplier": 1.07},
    "num_steps": 20_000,
    "epsilon": 10.0,
    "delta": 1e-5,
}


def test_the_published_run_is_worth_more_than_three_hundred() -> None:
    run = HiddenCritic(num_critics=1000, num_samples=32, noise_multiplier=1.07)
    bounds = hidden_critic_bounds(run, 20_000, 1e-5)
    assert bounds.claimed == 10.0
    assert bounds.least == pytest.approx(329.4, rel=2e-3)
    assert bounds.most_decoupled == pytest.approx(346.7, rel=2e-3)
    assert bounds.most == pytest.approx(610.3, rel=2e-3)


def test_one_clip_for_the_whole_batch_would_be_a_sampled_gaussian() -> None:
    run = HiddenCritic(num_critics=1000, num_samples=1, noise_multiplier=1.07)
    bounds = hidden_critic_bounds(run, 20_000, 1e-5)
    event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(1e-3), noise_multiplier=1.07)
    assert bounds.claimed is None
    assert bounds.least == pytest.approx(pld_epsilon(event, 20_000, 1e-5), rel=5e-3)
    assert bounds.most_decoupled == pytest.approx(0.788, rel=5e-3)
    assert bounds.most == pytest.approx(31.3, rel=5e-3)


def test_with_one_critic_nothing_is_hidden() -> None:
    bounds = hidden_critic_bounds(
        HiddenCritic(num_critics=1, num_samples=4, noise_multiplier=20.0), 50, 1e-5
    )
    exact = pld_epsilon(GaussianEvent(noise_multiplier=10.0), 50, 1e-5)
    assert bounds.least == pytest.approx(exact, rel=2e-3)
    assert bounds.most == pytest.approx(exact, rel=2e-3)


def test_it_is_explained_and_not_offered() -> None:
    why = explain(read_declared(PUBLISHED, {}), cross_check=False)
    text = "\n".join(explain_lines(why))
    assert "claimed 10" in text
    assert "at least 329, at most 610; at most 347" in text
    assert not why.fits
    json.dumps(why.to_json(), allow_nan=False)


def test_the_average_is_priced_as_its_mechanism_prices_itself() -> None:
    table = {
        "mechanism": "gs-wgan-mean",
        "parameters": {"noise_multiplier": 23.8},
        "num_steps": 2000,
        "epsilon": 10.0,
        "delta": 1e-5,
    }
    run = read_declared(table, {})
    assert run.step == GaussianEvent(noise_multiplier=23.8)
    why = explain(run, cross_check=False)
    assert why.hidden_critic is None
    assert why.fits
    assert why.affordable_steps == pytest.approx(2000, rel=5e-3)


@pytest.mark.parametrize("key", ["num_critics", "num_samples", "noise_multiplier"])
@pytest.mark.parametrize("bad", [0, -1, True, None, "1", math.nan, math.inf, 10**30])
def test_bad_numbers_are_refused(key: str, bad: object) -> None:
    parameters = {**PUBLISHED["parameters"], key: bad}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"\w"):
        explain(read_declared({**PUBLISHED, "parameters": parameters}, {}), cross_check=False)


def test_a_shift_that_no_profile_reaches_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 14"):
        HiddenCritic(num_critics=10, num_samples=400, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="num_steps"):
        hidden_critic_bounds(
            HiddenCritic(num_critics=10, num_samples=4, noise_multiplier=1.0), 1 << 21, 1e-5
        )
