"""What Dosser costs as published: claimed 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.papers.accounting import looks
from benchmarks.papers.accounting.looks import StoredSums, looks_bounds
from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.words import setting_lines
from curator.accounting.events.sampled_gaussian import sampled_gaussian_at

PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.01,
    "noise_multiplier": 4.2969,
    "num_sums": 10_000,
    "num_looks": 200_000,
    "told_delta": 5e-6,
}


def test_the_published_run_costs_seven_times_what_it_claims() -> None:
    bounds = looks_bounds(StoredSums(**PARAMETERS), 1e-5)
    assert bounds.reported == pytest.approx(0.994, abs=1e-3)  # within .01 below 1, as searched
    assert bounds.renyi == pytest.approx(7.265, rel=1e-3)
    assert bounds.losses == pytest.approx(6.693, rel=1e-3)
    assert bounds.most == pytest.approx(7.560, rel=1e-3)


def test_the_readme_s_run_costs_much_more(monkeypatch: pytest.MonkeyPatch) -> None:
    some = tuple(1 + step / 40 for step in range(4, 12))
    monkeypatch.setattr(looks, "_BETWEEN", some)  # the best orders are among them
    monkeypatch.setattr(looks, "_ALL", (*some, 2))
    monkeypatch.setattr(looks, "_WHOLE", (2,))
    bounds = looks_bounds(StoredSums(**PARAMETERS | {"num_sums": 1000}), 1e-5)
    assert bounds.losses == pytest.approx(67.1, rel=1e-2)
    assert bounds.losses < bounds.renyi < bounds.most
    assert bounds.most == pytest.approx(76.1, rel=2e-2)


def test_one_look_at_each_sum_is_what_the_accountant_is_told() -> None:
    told = StoredSums(**PARAMETERS | {"num_sums": 500, "num_looks": 500, "told_delta": 1e-5})
    bounds = looks_bounds(told, 1e-5)
    assert bounds.reported == bounds.renyi
    assert bounds.losses < bounds.renyi < bounds.most  # by chance some are looked at twice


def test_copies_of_a_sum_are_one_release_with_less_noise() -> None:
    """The likelihood ratio of k noised copies is that of their mean: both moments by sampling."""
    rng, copies, noise, rate, order = np.random.default_rng(7), 5, 2.0, 0.3, 2
    seen = rng.normal(0.0, noise, (400_000, copies))
    log_ratio = (seen - 0.5).sum(axis=1) / noise**2
    moment = ((1 - rate + rate * np.exp(log_ratio)) ** order).mean()
    exact = math.exp(sampled_gaussian_at(rate, noise / math.sqrt(copies), order))
    assert moment == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_closed_form_is_the_mean_over_numbers_of_looks(order: int) -> None:
    run = StoredSums(**PARAMETERS | {"num_sums": 50, "num_looks": 400})
    numbers = np.arange(1, 401)
    weights = binom.pmf(numbers, 400, 1 / 50)
    moments = [
        math.exp((order - 1) * sampled_gaussian_at(0.01, 4.2969 / math.sqrt(one), order))
        for one in numbers
    ]
    mean = float(weights @ np.array(moments)) + float(binom.pmf(0, 400, 1 / 50))
    assert looks._log_moment(run, order) == pytest.approx(math.log(mean), rel=1e-9)
    assert looks._log_mean(run, order) == pytest.approx(math.log(mean), rel=1e-6)


@pytest.mark.parametrize("order", [1.5, 2, 4, 8])
def test_equal_looks_cost_the_least(order: float) -> None:
    """log A is convex in the number of looks, so that unequal shares cost more."""
    logs = [sampled_gaussian_at(0.01, 4.2969 / math.sqrt(k), order) for k in range(1, 60)]
    assert (np.diff(logs, 2) >= -1e-15).all()


def test_it_is_told_in_words() -> None:
    table = {
        "mechanism": "dosser-published",
        "parameters": PARAMETERS | {"num_sums": 100, "num_looks": 400},
        "num_steps": 100,
    }
    text = "\n".join(setting_lines(read_setting(table, {"epsilon": 1.0, "delta": 1e-5})))
    assert "for one look at each sum" in text
    assert "with looks at random" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling_rate": 1.0},
        {"noise_multiplier": 0.0},
        {"num_sums": 0},
        {"num_looks": 9_999},
        {"told_delta": 0.0},
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        StoredSums(**PARAMETERS | changes)
