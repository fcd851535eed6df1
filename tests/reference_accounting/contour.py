"""Epsilon of a composition to some 1e-6 by a contour integral; exact, but no upper bound.

With K(z) = log E_Q[L^(1+z)] of one step,
delta(e) = 1 / (2 pi i) * integral over Re z = c of exp(T K(z) - z e) / (z (z + 1)) dz, any c > 0,
because 1 / (z (z + 1)) is the Laplace transform of (1 - exp(-x))_+. The trapezoid rule converges
geometrically; c is put at the saddle. Below some 50 expected samples of a unit, num_steps times q,
the integrand decays too slowly and a grid is used instead.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from curator.accounting.profile_composition import (
    Floats,
    add_profile,
    composed_epsilon,
    remove_profile,
)
from tests.reference_accounting.mixture import Direction, Mixture

_PER_RADIUS = 14.0  # steps in the distance to the pole at zero: an error of exp(-2 pi 14)
_WIDEST = 0.35  # of a step: losses alias at a distance of 2 pi / step = 18
_SMALL = 1e-10
_ROUNDS = 8
_FEW_SAMPLES = 50


def contour_epsilon(
    mixture: Mixture, num_steps: int, delta: float, direction: Direction, guess: float
) -> float:
    """Return epsilon at `delta`; `guess` only starts the search for the saddle.

    With few expected samples of a unit the answer is that of a fine grid of losses, some 1e-5 high.
    """
    if num_steps * mixture.q < _FEW_SAMPLES:
        return _on_a_grid(mixture, num_steps, delta, direction)
    epsilon = guess
    for _ in range(_ROUNDS):
        last = epsilon
        centre = _saddle(mixture, num_steps, epsilon, direction)
        y, log_values = _contour(mixture, num_steps, centre, direction)
        epsilon = _solve(y, log_values, centre, delta, epsilon)
        if abs(epsilon - last) < 0.05 * epsilon:
            return epsilon
    msg = "the saddle did not settle"
    raise AssertionError(msg)


def _on_a_grid(mixture: Mixture, num_steps: int, delta: float, direction: Direction) -> float:
    def remove(losses: Floats) -> Floats:
        return remove_profile(losses, mixture.q, mixture.shifts, mixture.weights)

    def add(losses: Floats) -> Floats:
        return add_profile(losses, mixture.q, mixture.shifts, mixture.weights)

    forward = add if direction == "add" else remove
    backward = add if direction == "remove" else remove
    return composed_epsilon(forward, backward, num_steps, delta, 1e-5)


def _saddle(mixture: Mixture, num_steps: int, epsilon: float, direction: Direction) -> float:
    def height(log_c: float) -> float:
        c = math.exp(log_c)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = float(mixture.excess(np.array([1.0 + c]), direction)[0])
        if not math.isfinite(excess):
            return 1e6 * (1 + c)
        return num_steps * math.log1p(excess) - c * epsilon - math.log(c * (c + 1))

    return math.exp(minimize_scalar(height, bounds=(-4, 5), method="bounded").x)


def _contour(
    mixture: Mixture, num_steps: int, centre: float, direction: Direction
) -> tuple[np.ndarray, np.ndarray]:
    """Return the heights y >= 0 and T K - log(z (z + 1)) there, until it has decayed."""
    step = min(centre / _PER_RADIUS, _WIDEST)
    heights: list[np.ndarray] = []
    values: list[np.ndarray] = []
    while True:
        y = (np.arange(32) + 32 * len(heights)) * step
        z = centre + 1j * y
        excess = mixture.excess(1.0 + z, direction)
        values.append(num_steps * np.log1p(excess) - np.log(z) - np.log(z + 1))
        heights.append(y)
        if np.max(values[-1].real) < values[0][0].real + math.log(_SMALL):
            return np.concatenate(heights), np.concatenate(values)
        assert len(heights) < 200, "the integrand does not decay: too few sampled steps"


def _solve(
    y: np.ndarray, log_values: np.ndarray, centre: float, delta: float, near: float
) -> float:
    step = y[1] - y[0]
    weights = np.where(y == 0, 0.5, 1.0) * step / math.pi

    def excess(epsilon: float) -> float:
        integrand = np.exp(log_values - (centre + 1j * y) * epsilon)
        return float(np.sum(weights * integrand.real)) / delta - 1.0

    low, high = near, near
    while excess(low) < 0 and low > 1e-9:
        low *= 0.9
    while excess(high) > 0:
        high = high * 1.1 + 1e-9
    return float(brentq(excess, low, high, xtol=1e-10))
