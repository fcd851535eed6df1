from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from curator.accounting.profile_composition import (
    Floats,
    add_profile,
    composed_epsilon,
    grid_interval,
    remove_profile,
)

ONE = np.array([1.0])


def gaussian_delta(epsilon: float, z: float) -> float:
    upper = norm.cdf(0.5 / z - epsilon * z)
    return float(upper - math.exp(epsilon) * norm.cdf(-0.5 / z - epsilon * z))


def whole(losses: Floats, z: float) -> Floats:
    return remove_profile(losses, 1.0, ONE / z, ONE)


def test_profiles_of_a_gaussian_release() -> None:
    losses = np.linspace(0.0, 8.0, 50)
    for z in (0.5, 1.0, 3.0):
        truth = [gaussian_delta(float(loss), z) for loss in losses]
        assert whole(losses, z) == pytest.approx(truth, rel=1e-9, abs=1e-15)
        assert add_profile(losses, 1.0, ONE / z, ONE) == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("q", [1e-3, 0.2, 0.9])
def test_profiles_of_a_sampled_release_by_their_integral(q: float) -> None:
    z = 0.8
    x = np.linspace(-12.0, 14.0, 400_001)
    without = norm.pdf(x, 0, z)
    with_unit = (1 - q) * without + q * norm.pdf(x, 1, z)
    for loss in (0.0, 1e-3, 0.1, 1.0, 3.0):
        t = math.exp(loss)
        remove = np.sum(np.maximum(with_unit - t * without, 0)) * (x[1] - x[0])
        add = np.sum(np.maximum(without - t * with_unit, 0)) * (x[1] - x[0])
        at = np.array([loss])
        assert remove_profile(at, q, ONE / z, ONE)[0] == pytest.approx(remove, rel=1e-6, abs=1e-12)
        assert add_profile(at, q, ONE / z, ONE)[0] == pytest.approx(add, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("z", "steps"), [(1.0, 1), (4.0, 10), (30.0, 1000)])
def test_composed_gaussians_against_the_analytic_formula(z: float, steps: int) -> None:
    def profile(losses: Floats) -> Floats:
        return whole(losses, z)

    epsilon = composed_epsilon(profile, profile, steps, 1e-5, 1e-4)
    assert gaussian_delta(epsilon, z / math.sqrt(steps)) <= 1e-5
    assert gaussian_delta(epsilon * 0.999, z / math.sqrt(steps)) > 1e-5


def test_a_finer_grid_is_never_higher() -> None:
    def forward(losses: Floats) -> Floats:
        return remove_profile(losses, 0.01, ONE, ONE)

    def backward(losses: Floats) -> Floats:
        return add_profile(losses, 0.01, ONE, ONE)

    found = [composed_epsilon(forward, backward, 1000, 1e-5, h) for h in (1e-3, 1e-4, 1e-5)]
    assert found == sorted(found, reverse=True)


def test_too_little_delta_is_refused() -> None:
    def profile(losses: Floats) -> Floats:
        return whole(losses, 100.0)

    with pytest.raises(ValueError, match="delta"):
        composed_epsilon(profile, profile, 10**9, 1e-8, 1e-4)


def test_the_interval_is_bounded() -> None:
    assert grid_interval(1e-9, 10**9, 1e-9) == 5e-6
    assert grid_interval(50.0, 1, 0.5) == 1e-4
    assert 5e-6 < grid_interval(0.3, 60_000, 1e-6) < 1e-4
