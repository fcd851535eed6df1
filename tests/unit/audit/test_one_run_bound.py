"""The bound is exact for randomized response, and no mechanism whatever exceeds it."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_matrix
from scipy.stats import binom

from audit.one_run_bound import Guesses

Coins = tuple[int, ...]


def likelihood(num_guesses: int, num_right: int, epsilon: float) -> float:
    """Return the chance that randomized response has so many right."""
    return float(binom.sf(num_right - 1, num_guesses, 1 / (1 + math.exp(-epsilon))))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("error", [0.05, 1e-3])
def test_randomized_response_is_covered_as_often_as_stated_and_hardly_more(
    epsilon: float, error: float
) -> None:
    """Summed over all outcomes: no sampling and no false alarm."""
    guesses, probability = 400, 1 / (1 + math.exp(-epsilon))
    rights = np.arange(guesses + 1)
    weights = binom.pmf(rights, guesses, probability)
    exceeds = np.array(
        [
            Guesses(
                num_canaries=guesses, num_guesses=guesses, num_right=int(right)
            ).epsilon_lower_bound(0, error)
            > epsilon
            for right in rights
        ]
    )
    wrong = weights[exceeds].sum()
    assert wrong <= error
    first = rights[exceeds].min()
    assert binom.sf(first - 2, guesses, probability) > error  # one right guess less is not enough


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_randomized_response_shows_nearly_its_epsilon(epsilon: float) -> None:
    guesses = 20_000
    right = round(guesses / (1 + math.exp(-epsilon)))
    bound = Guesses(num_canaries=guesses, num_guesses=guesses, num_right=right).epsilon_lower_bound(
        0, 0.05
    )
    assert 0.95 * epsilon < bound < epsilon


def test_a_simulated_randomized_response_is_below_its_epsilon() -> None:
    """False alarm below 1e-6: 2000 runs, each wrong with probability 5 %; 153 is 6 sigma."""
    rng = np.random.default_rng(22)
    epsilon, canaries, guesses = 1.5, 500, 200
    coins = rng.integers(0, 2, (2000, canaries))
    kept = rng.random((2000, canaries)) < 1 / (1 + math.exp(-epsilon))
    rights = (np.where(kept, coins, 1 - coins) == coins)[:, :guesses].sum(axis=1)

    @functools.cache
    def bound(right: int) -> float:
        told = Guesses(num_canaries=canaries, num_guesses=guesses, num_right=right)
        return told.epsilon_lower_bound(1e-5, 0.05)

    bounds = [bound(int(right)) for right in rights]
    assert sum(one > epsilon for one in bounds) < 153
    assert np.median(bounds) > 0.75 * epsilon


def worst_chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the most that any private mechanism can have, over all of them: a linear programme.

    A mechanism is a table: for all coins the probability of every set of guesses. Of each pair of
    neighbours the excess over e^epsilon of each answer has a slack, and slacks add up to delta.
    """
    coins = list(itertools.product((-1, 1), repeat=canaries))
    answers = [
        one
        for one in itertools.product((-1, 0, 1), repeat=canaries)
        if np.abs(one).sum() == guesses
    ]
    cells = {pair: n for n, pair in enumerate(itertools.product(coins, answers))}
    ordered = [
        (one, (*one[:place], -one[place], *one[place + 1 :]))
        for one in coins
        for place in range(canaries)
    ]
    num_slacks = len(ordered) * len(answers)
    rows, columns, values = list[int](), list[int](), list[float]()
    most = list[float]()
    for number, (one, other) in enumerate(ordered):
        for place, answer in enumerate(answers):
            slack = len(cells) + number * len(answers) + place
            row = len(most)
            rows += [row] * 3
            columns += [cells[one, answer], cells[other, answer], slack]
            values += [1.0, -math.exp(epsilon), -1.0]
            most.append(0.0)
        row, first = len(most), len(cells) + number * len(answers)
        rows += [row] * len(answers)
        columns += list(range(first, first + len(answers)))
        values += [1.0] * len(answers)
        most.append(delta)
    size = len(cells) + num_slacks
    inequalities = coo_matrix((values, (rows, columns)), shape=(len(most), size))
    totals = coo_matrix(
        (
            np.ones(len(cells)),
            ([coins.index(one) for one, _ in cells], list(range(len(cells)))),
        ),
        shape=(len(coins), size),
    )
    gain = np.zeros(size)
    for (one, answer), cell in cells.items():
        if sum(a == b for a, b in zip(one, answer, strict=True)) >= right:
            gain[cell] = 1 / len(coins)
    found = linprog(
        -gain, A_ub=inequalities, b_ub=most, A_eq=totals, b_eq=np.ones(len(coins)), method="highs"
    )
    assert found.status == 0
    return float(-found.fun)


@pytest.mark.parametrize(
    ("canaries", "guesses", "right"),
    [(1, 1, 1), (2, 1, 1), (2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 3), (4, 3, 3)],
)
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_no_mechanism_exceeds_the_chance(
    canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> None:
    """Against the worst of all mechanisms and attacks, found exactly."""
    stated = Guesses(num_canaries=canaries, num_guesses=guesses, num_right=right)
    worst = worst_chance(canaries, guesses, right, epsilon, delta)
    assert worst <= stated.chance(epsilon, delta) + 1e-7
    assert worst >= likelihood(guesses, right, epsilon) - 1e-7
    if guesses == canaries == right:
        assert stated.chance(epsilon, delta) <= worst + canaries * delta + 1e-9


def published(told: Guesses, epsilon: float, delta: float) -> float:
    """Return the chance by the formula of the paper, term by term."""
    at_least = binom.sf(
        np.arange(told.num_right + 1) - 1, told.num_guesses, 1 / (1 + math.exp(-epsilon))
    )
    fewer = np.arange(told.num_right, 0, -1)  # by how much
    steepest = float(((at_least[:-1] - at_least[-1]) / fewer).max())
    return min(1.0, float(at_least[-1]) + 2 * told.num_canaries * delta * steepest)


@pytest.mark.parametrize(("canaries", "guesses"), [(100, 100), (2000, 100), (2000, 900)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_it_is_the_published_bound_or_less_wherever_either_proves_anything(
    canaries: int, guesses: int, epsilon: float
) -> None:
    told = 0
    for right in range(1, guesses + 1):
        stated = Guesses(num_canaries=canaries, num_guesses=guesses, num_right=right)
        for delta in (0.0, 1e-6, 1e-4):
            theirs, ours = published(stated, epsilon, delta), stated.chance(epsilon, delta)
            if min(theirs, ours) > 0.5 or theirs < 1e-200:
                continue
            assert ours <= theirs * (1 + 1e-9)
            told += 1
    assert told > 10


def test_delta_lowers_the_bound_and_right_guesses_raise_it() -> None:
    def bound(right: int, delta: float) -> float:
        told = Guesses(num_canaries=1000, num_guesses=100, num_right=right)
        return told.epsilon_lower_bound(delta, 0.05)

    assert bound(99, 0) > bound(99, 1e-3) > bound(99, 1e-1) == 0
    assert bound(99, 1e-5) > bound(80, 1e-5) > bound(50, 1e-5) == 0
    assert bound(100, 0) == pytest.approx(math.log(0.05**0.01 / (1 - 0.05**0.01)))
    assert bound(0, 0) == 0


@pytest.mark.parametrize("numbers", [(10, 11, 5), (10, 0, 0), (10, 5, 6), (10, 5, -1)])
def test_numbers_that_do_not_fit_are_refused(numbers: tuple[int, int, int]) -> None:
    canaries, guesses, right = numbers
    with pytest.raises(ValueError, match="guess"):
        Guesses(num_canaries=canaries, num_guesses=guesses, num_right=right)


@pytest.mark.parametrize(("delta", "error"), [(-0.1, 0.05), (1.0, 0.05), (0.0, 0.0), (0.0, 1.0)])
def test_a_confidence_that_is_none_is_refused(delta: float, error: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        Guesses(num_canaries=9, num_guesses=9, num_right=9).epsilon_lower_bound(delta, error)
