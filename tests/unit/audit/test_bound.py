"""The bounds are exact for the binomial, and the search on one half leaves the other honest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from audit.bound import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    epsilon_lower_bound,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (37, 1000)])
@pytest.mark.parametrize("error", [0.05, 1e-4, 1e-9])
def test_clopper_pearson_against_scipy(hits: int, trials: int, error: float) -> None:
    exact = binomtest(hits, trials).proportion_ci(1 - 2 * error, method="exact")
    assert clopper_pearson_lower(hits, trials, error) == pytest.approx(exact.low, rel=1e-6)
    assert clopper_pearson_upper(hits, trials, error) == pytest.approx(exact.high, rel=1e-6)


def test_clopper_pearson_where_it_is_known_in_closed_form() -> None:
    assert clopper_pearson_upper(0, 30, 0.05) == pytest.approx(1 - 0.05 ** (1 / 30))
    assert clopper_pearson_lower(30, 30, 0.05) == pytest.approx(0.05 ** (1 / 30))
    assert clopper_pearson_lower(0, 30, 0.05) == 0
    assert clopper_pearson_upper(30, 30, 0.05) == 1
    assert clopper_pearson_lower(5, 20, 0.025) == pytest.approx(0.086571, abs=1e-6)  # tables
    assert clopper_pearson_upper(5, 20, 0.025) == pytest.approx(0.491046, abs=1e-6)


@pytest.mark.parametrize("probability", [0.003, 0.2, 0.9])
def test_the_bounds_cover_as_often_as_they_say(probability: float) -> None:
    """Summed over all outcomes of the binomial: no sampling, no false alarm."""
    trials, error = 200, 0.01
    hits = np.arange(trials + 1)
    weights = binom.pmf(hits, trials, probability)
    assert weights[clopper_pearson_lower(hits, trials, error) > probability].sum() <= error
    assert weights[clopper_pearson_upper(hits, trials, error) < probability].sum() <= error


def normal(seed: int, mean: float, trials: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, trials)


def test_far_apart_data_sets_reach_what_so_many_trials_can_show() -> None:
    bound = epsilon_lower_bound(normal(1, 0, 4000), normal(2, 20, 4000), delta=1e-5, error=1e-4)
    each, half = 1e-4 / 4, 2000
    most = math.log((each ** (1 / half) - 1e-5) / (1 - each ** (1 / half)))
    assert bound == pytest.approx(most)


def test_equal_data_sets_show_nothing() -> None:
    assert epsilon_lower_bound(normal(1, 0, 4000), normal(2, 0, 4000), 1e-5, 1e-4) == 0


def test_both_directions_are_searched() -> None:
    """D' is a rare mixture: it is D's lower tail that is missing, or the upper that is new."""
    low, high = normal(1, 0, 4000), normal(2, 0, 4000)
    high[::10] += 8
    forward = epsilon_lower_bound(low, high, 1e-5, 1e-4)
    backward = epsilon_lower_bound(-high, -low, 1e-5, 1e-4)
    assert forward == pytest.approx(backward)
    assert forward > 2


def test_what_is_in_the_first_half_alone_proves_nothing() -> None:
    low, high = normal(1, 0, 4000), normal(2, 0, 4000)
    high[:2000] += 8
    assert epsilon_lower_bound(low, high, 1e-5, 1e-4) == 0


@pytest.mark.parametrize("failing", ["without", "with_extra"])
def test_errors_of_one_data_set_tell_it_apart(failing: str) -> None:
    scores = {"without": normal(1, 0, 2000), "with_extra": normal(2, 0, 2000)}
    scores[failing][:] = np.inf
    assert epsilon_lower_bound(**scores, delta=1e-5, error=1e-4) > 4


def test_scores_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="same number"):
        epsilon_lower_bound(normal(1, 0, 40), normal(2, 0, 50), 1e-5, 1e-4)
    with pytest.raises(ValueError, match="at least"):
        epsilon_lower_bound(normal(1, 0, 10), normal(2, 0, 10), 1e-5, 1e-4)
    with pytest.raises(ValueError, match="not a number"):
        epsilon_lower_bound(normal(1, 0, 40), np.full(40, np.nan), 1e-5, 1e-4)


def test_a_delta_above_what_was_seen_leaves_nothing() -> None:
    assert epsilon_lower_bound(normal(1, 0, 400), normal(2, 3, 400), 0.999, 1e-4) == 0
