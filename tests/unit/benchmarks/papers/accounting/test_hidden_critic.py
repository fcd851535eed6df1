"""What a published run with one hidden critic costs, as computed elsewhere from the same event."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.papers.accounting.hidden_critic import HiddenCritic, hidden_critic_bounds
from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.words import setting_lines
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.mechanisms.described import read_described
from curator.privacy.event_numbers import SamplingRate

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


FEDERATED = {"num_critics": 866, "num_samples": 32, "noise_multiplier": 1.07}
EXTRACTORS = {"num_critics": 1200, "noise_multiplier": 1.1}
JOINTLY = {"num_critics": 1000, "num_samples": 1, "noise_multiplier": 1.07}


@pytest.mark.parametrize(
    ("mechanism", "parameters", "num_steps", "claimed", "expected"),
    [
        ("gs-wgan-federated-published", FEDERATED, 30_000, 14.97, (None, 905.6, 621.6)),
        (
            "gs-wgan-federated-published",
            {**FEDERATED, "num_replies": 5},
            30_000,
            None,
            (None, 4398.0, 2743.0),
        ),
        ("adversarial-dp-sinkhorn-published", EXTRACTORS, 480_000, 6.70, (3.59, None, 242.0)),
        ("gs-wgan-published", JOINTLY, 20_000, None, (0.788, 31.3, 25.9)),
    ],
)
def test_other_published_settings(
    mechanism: str,
    parameters: dict[str, Any],
    num_steps: int,
    claimed: float | None,
    expected: tuple[float | None, ...],
) -> None:
    table = {"mechanism": mechanism, "parameters": parameters, "num_steps": num_steps}
    told = read_setting({**table, "epsilon": 10.0, "delta": 1e-5}, {}).told
    assert isinstance(told, HiddenCritic)
    bounds = hidden_critic_bounds(told, num_steps, 1e-5)
    assert bounds.claimed == claimed
    found = (bounds.most_decoupled, bounds.most, bounds.in_public_rounds)
    for number, wanted in zip(found, expected, strict=True):
        assert wanted is None or number == pytest.approx(wanted, rel=1e-2)


def test_a_server_that_draws_knows_the_draws() -> None:
    table = {"mechanism": "gs-wgan-federated-published", "parameters": FEDERATED}
    given = {**table, "num_steps": 30_000, "epsilon": 10.0, "delta": 1e-5}
    text = "\n".join(setting_lines(read_setting(given, {})))
    assert "14.97 by its accountant" in text
    assert "907: who draws knows the draws" in text


def test_with_one_critic_nothing_is_hidden() -> None:
    bounds = hidden_critic_bounds(
        HiddenCritic(num_critics=1, num_samples=4, noise_multiplier=20.0), 50, 1e-5
    )
    exact = pld_epsilon(GaussianEvent(noise_multiplier=10.0), 50, 1e-5)
    assert bounds.least == pytest.approx(exact, rel=2e-3)
    assert bounds.most == pytest.approx(exact, rel=2e-3)


def test_it_is_explained_and_not_offered() -> None:
    setting = read_setting(PUBLISHED, {})
    text = "\n".join(setting_lines(setting))
    assert "claimed 10" in text
    assert "at least 329, at most 611; at most 347" in text
    assert "in public rounds               380" in text
    assert "does not fit" in text
    with pytest.raises(ValueError, match="mechanism: expected one of"):
        read_described(PUBLISHED, {})


@pytest.mark.parametrize("key", ["num_critics", "num_samples", "noise_multiplier"])
@pytest.mark.parametrize("bad", [0, -1, True, None, "1", math.nan, math.inf, 10**30])
def test_bad_numbers_are_refused(key: str, bad: object) -> None:
    parameters = {**PUBLISHED["parameters"], key: bad}  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"\w"):
        read_setting({**PUBLISHED, "parameters": parameters}, {})


def test_a_shift_that_no_profile_reaches_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 14"):
        HiddenCritic(num_critics=10, num_samples=400, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="num_steps"):
        hidden_critic_bounds(
            HiddenCritic(num_critics=10, num_samples=4, noise_multiplier=1.0), 1 << 21, 1e-5
        )
