"""Moments of sampled Gaussians by quadrature, at real and complex orders, for tests only.

One step's worst pair, given a public random shift m: P = N(m, 1), Q = N(0, 1), L = 1 - q + q dP/dQ.
With f_b(L) = L^b - 1 - b (L - 1), which is O((L - 1)^2), and E_Q L = 1:

    remove        E_Q[L^a]        = 1 + E_Q[f_a(L)]
    add           E_Q[L^(1 - a)]  = 1 + E_Q[f_(1-a)(L)]
    replace-one   1 + E_Q[(f_a(L) + f_(1-a)(L)) 1{L > 1}]      (Weir's design notes, 1.6 and 3.3)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from curator.accounting.sliced_pld import squared_length_rule

Direction = Literal["remove", "add", "replace"]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class Mixture:
    """Shifts over noise standard deviation, with their probabilities, and the sampling rate."""

    q: float
    shifts: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]

    def excess(self, orders: npt.NDArray[Any], direction: Direction) -> npt.NDArray[Any]:
        """Return A(a) - 1 at every order a, real or complex with one real part."""
        total = np.zeros_like(orders)
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            x, dx = _points(shift, orders)
            y = self.q * np.expm1(shift * x - shift * shift / 2)
            mass = weight * dx * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
            if direction == "replace":
                mass = np.where(y > 0, mass, 0.0)
            for i, a in enumerate(orders):
                value: Any = 0.0
                if direction != "add":
                    value = value + _f(y, a)
                if direction != "remove":
                    value = value + _f(y, 1 - a)
                total[i] += np.sum(value * mass)
        return total

    def rdp(self, alpha: float, direction: Direction) -> float:
        """Return the divergence of one release; infinity where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            excess = float(self.excess(np.array([float(alpha)]), direction)[0])
        return math.log1p(excess) / (alpha - 1) if math.isfinite(excess) else math.inf


def gaussian(q: float, noise_multiplier: float) -> Mixture:
    return Mixture(q, np.array([1.0 / noise_multiplier]), np.array([1.0]))


def sliced(q: float, dimension: int, num_projections: int, noise_multiplier: float) -> Mixture:
    squares, weights = squared_length_rule(dimension, num_projections, 12)
    return Mixture(q, np.sqrt(squares) / noise_multiplier, weights)


def _points(
    shift: float, orders: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return Gauss points in panels on both sides of shift / 2, where L = 1."""
    real, imaginary = float(np.max(np.real(orders))), float(np.max(np.abs(np.imag(orders))))
    reach = 12.0 + abs(real) * shift + shift
    width = min(1.0, 12.0 / (shift * (1.0 + imaginary)))
    panels = math.ceil(reach / width)
    edges = np.arange(-panels, panels) * width + shift / 2
    x = edges[:, None] + (1 + _NODES) * width / 2
    return x.ravel(), np.tile(_WEIGHTS * width / 2, 2 * panels)


def _f(y: npt.NDArray[np.float64], b: Any) -> npt.NDArray[Any]:
    """Return (1 + y)^b - 1 - b y, by its series where y is small."""
    value = np.expm1(b * np.log1p(y)) - b * y
    near = np.abs(y) * (1 + abs(b)) < 1e-3
    close = y[near]
    series, term = np.zeros_like(close * b), np.ones_like(close * b) * b
    for j in range(2, 9):
        term = term * (b - j + 1) / j
        series = series + term * close ** (j - 2)
    value[near] = series * close * close
    return np.asarray(value)
