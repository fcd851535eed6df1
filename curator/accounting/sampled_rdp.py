"""Renyi divergence of Poisson-sampled releases: by moments at integer orders, else numerically."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_LOG_EXPM1_LINEAR: Final = 1.0  # below: log(expm1(x)) directly, above: x + log1p(-exp(-x))


def log_sampled_excess(sampling_rate: float, alpha: int, log_moments: Sequence[float]) -> float:
    """Return log(A - 1), where A is the moment of order `alpha` of the sampled release.

    A - 1 = sum over i >= 2 of C(a, i) (1-q)^(a-i) q^i (M_i - 1). Every term is positive, so no
    digits cancel; terms are added in the log domain, so none overflows.

    Args:
        sampling_rate: q in (0, 1).
        alpha: Integer order, at least 2.
        log_moments: log M_i = log E_Q[(dP/dQ)^i] for i = 2 .. alpha, each positive.

    Returns:
        The logarithm; never NaN for finite input.

    References:
        [mironov:19], Section 3.3.
    """
    log_q, log_rest = math.log(sampling_rate), math.log1p(-sampling_rate)
    logs = [
        math.log(math.comb(alpha, i)) + (alpha - i) * log_rest + i * log_q + log_expm1(moment)
        for i, moment in zip(range(2, alpha + 1), log_moments, strict=True)
    ]
    top = max(logs)
    return top + math.log(math.fsum(math.exp(term - top) for term in logs))


def log_expm1(x: float) -> float:
    """Return log(exp(x) - 1) for x > 0 without overflow."""
    if x < _LOG_EXPM1_LINEAR:
        return math.log(math.expm1(x))
    return x + math.log1p(-math.exp(-x))


Floats = npt.NDArray[np.float64]

_SERIES_TERMS = 16
_SERIES_BELOW = 0.05
_REACH = 14.0


def sampled_gaussian_rdp_at(sampling_rate: float, noise_multiplier: float, alpha: float) -> float:
    """Return the divergence of the Poisson-sampled Gaussian at any real order.

    With w = (2 x - 1) / (2 z^2) and y = L - 1 = q (e^w - 1), as E_Q[y] = 0,

        A - 1 = E_Q[B(y)],    B(y) = (1 + y)^a - 1 - a y
                                   = a (a - 1) y^2 * integral_0^1 (1 - t) (1 + t y)^(a - 2) dt.

    B is non-negative, so no digits cancel between points. The trapezoid rule with step h errs by at
    most 2 M / (e^(2 pi b / h) - 1), where M bounds the integral of |f(x + i s)| over x for |s| <= b
    [trefethen:14, theorem 5.1]. Take b = min(pi z^2 / 3, 6 z). There cos(s / z^2) >= 1/2, so

        |density(x + i s)|          <=  e^18 density(x),
        |1 + t y(x + i s)|^(a - 2)  <=  2^(1/2) (1 + t y(x))^(a - 2),
        |y(x + i s)|^2              <=  y(x)^2 + q^2 e^w (s / z^2)^2,

    and the integral of the last term is at most a few dozen times that of y^2. So M is below
    1e10 (A - 1), and with h = min(z / 16, z^2 / 8) the exponent 2 pi b / h is at least 52: the
    relative error is below 1e-12. What lies beyond 14 z on either side is a relative e^-98.
    Rounding of the sum is below 1e-11.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: Real order above 1.

    Returns:
        The divergence within 1e-10 relative, in the worse direction, which is remove.

    References:
        [trefethen:14], Theorem 5.1.
    """
    q, z = sampling_rate, noise_multiplier
    step = min(z / 16.0, z * z / 8.0)
    low, high = -_REACH * z, alpha + _REACH * z
    x = np.linspace(low, high, math.ceil((high - low) / step) + 1)
    w = (2.0 * x - 1.0) / (2.0 * z * z)
    log_density = -(x * x) / (2.0 * z * z) - math.log(z) - 0.5 * math.log(2.0 * math.pi)
    logs = _log_bregman(w, q, alpha) + log_density
    top = float(np.max(logs))
    log_excess = top + math.log(float(np.sum(np.exp(logs - top))) * float(x[1] - x[0]))
    return log1p_exp(log_excess) / (alpha - 1.0)


def log1p_exp(x: float) -> float:
    """Return log(1 + e^x) without overflow, relatively accurate for very negative x."""
    return math.log1p(math.exp(x)) if x < 0 else x + math.log1p(math.exp(-x))


def _log_bregman(w: Floats, q: float, alpha: float) -> Floats:
    """Return log B(y), by its power series where y is small."""
    log_l = np.logaddexp(math.log1p(-q), math.log(q) + w)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        y = q * np.expm1(w)
        series = np.zeros_like(y)
        coefficient = alpha
        for j in range(2, _SERIES_TERMS):
            coefficient *= (alpha - j + 1) / j
            series += coefficient * y ** (j - 2)
        near = np.log(series) + 2.0 * np.log(np.abs(y))
        inverse = np.exp(-alpha * log_l)  # L^-a
        above = alpha * log_l + np.log1p(
            -inverse - alpha * (np.exp((1.0 - alpha) * log_l) - inverse)
        )
        below = np.log(np.expm1(alpha * log_l) - alpha * y)
        close = np.abs(y) * alpha < _SERIES_BELOW
        return np.asarray(np.where(close, near, np.where(log_l > 0, above, below)))
