"""Renyi divergence of one release, and its conversion to epsilon.

Integer orders of the Poisson-sampled Gaussian are sums of positive terms and are what the ledger
charges. Real orders by quadrature are for reports and tests; nothing is ever charged from them.

In the formulas q is the sampling rate, z the noise multiplier, a the order, r = dP/dQ the ratio
of N(1, z^2) to N(0, z^2), L = 1 - q + q r, and A = E_Q[L^a] = exp((a - 1) rho(a)).
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from curator.privacy.event import GaussianEvent, NoEvent, PrivacyEvent, SampledGaussianEvent

_LOG_EXPM1_LINEAR = 1.0  # below: log(expm1(x)) directly, above: x + log1p(-exp(-x))
_SERIES_TERMS = 16


def rdp_at(event: PrivacyEvent, alpha: float) -> float:
    """Return the Renyi divergence of one release at order `alpha`.

    Args:
        event: The release; the sampled Gaussian in its worse direction, which is remove.
        alpha: Any real order above 1.

    Returns:
        The divergence; exact up to float rounding at integer orders, by quadrature elsewhere.

    Raises:
        ValueError: If `alpha` is not a finite number above 1.

    References:
        [mironov:19], Section 3.3.
    """
    if not 1 < alpha < math.inf:
        msg = "alpha must be a finite number above 1"
        raise ValueError(msg)
    match event:
        case NoEvent():
            return 0.0
        case GaussianEvent(noise_multiplier=z):
            return gaussian_rdp(z, alpha)
        case SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z):
            q = float(rate)
            if q >= 1:
                return gaussian_rdp(z, alpha)
            if alpha == int(alpha):
                return sampled_gaussian_rdp(q, z, int(alpha))
            return _sampled_gaussian_rdp_by_quadrature(q, z, alpha)
        case _ as never:
            assert_never(never)


def gaussian_rdp(noise_multiplier: float, alpha: float) -> float:
    """Return alpha / (2 z^2), the divergence of the Gaussian mechanism at any order."""
    return alpha / (2.0 * noise_multiplier * noise_multiplier)


def sampled_gaussian_rdp(sampling_rate: float, noise_multiplier: float, alpha: int) -> float:
    """Return the divergence of the Poisson-sampled Gaussian at an integer order.

    A - 1 = sum over i >= 2 of C(a, i) (1-q)^(a-i) q^i expm1(i (i-1) / (2 z^2)). Every term is
    positive, so no digits cancel; terms are added in the log domain, so none overflows. The
    logarithm of a term is at most some 1e4 in size where it matters, so its rounding error is
    below 1e-11: the result is within 1e-10 relative of the truth.

    Args:
        sampling_rate: q in (0, 1).
        noise_multiplier: z, positive.
        alpha: Integer order, at least 2.

    Returns:
        The divergence, never NaN.

    References:
        [mironov:19], Section 3.3.
    """
    log_q, log_rest = math.log(sampling_rate), math.log1p(-sampling_rate)
    scale = 1.0 / (2.0 * noise_multiplier * noise_multiplier)
    logs = [
        math.log(math.comb(alpha, i))
        + (alpha - i) * log_rest
        + i * log_q
        + _log_expm1(i * (i - 1) * scale)
        for i in range(2, alpha + 1)
    ]
    top = max(logs)
    log_excess = top + math.log(math.fsum(math.exp(term - top) for term in logs))
    return _log1p_exp(log_excess) / (alpha - 1)


def epsilon_from_rdp(alpha: float, rdp: float, delta: float) -> float:
    """Return the epsilon that divergence `rdp` at order `alpha` implies at `delta`, at least 0.

    References:
        [canonne:20], Proposition 12.
    """
    epsilon = rdp + math.log1p(-1.0 / alpha) - math.log(delta * alpha) / (alpha - 1.0)
    return max(0.0, epsilon)


def _log_expm1(x: float) -> float:
    """Return log(exp(x) - 1) for x > 0 without overflow."""
    if x < _LOG_EXPM1_LINEAR:
        return math.log(math.expm1(x))
    return x + math.log1p(-math.exp(-x))


def _log1p_exp(x: float) -> float:
    """Return log(1 + exp(x)) without overflow, relatively accurate for very negative x."""
    return math.log1p(math.exp(x)) if x < 0 else x + math.log1p(math.exp(-x))


def _sampled_gaussian_rdp_by_quadrature(q: float, z: float, alpha: float) -> float:
    """Return the divergence at a real order: A - 1 = E_Q[L^a - 1 - a (L - 1)] by trapezoids.

    The integrand is analytic in a strip of half-width pi z^2 and decays like a Gaussian, so the
    trapezoid rule converges exponentially once the step is well below both z and z^2.
    """
    step = min(z / 16.0, z * z / 4.0)
    low, high = -14.0 * z, alpha + 14.0 * z
    x = np.linspace(low, high, math.ceil((high - low) / step) + 1)
    log_l = np.logaddexp(math.log1p(-q), math.log(q) + (2.0 * x - 1.0) / (2.0 * z * z))
    log_density = -(x * x) / (2.0 * z * z) - math.log(z) - 0.5 * math.log(2.0 * math.pi)
    logs = _log_bregman(log_l, (2.0 * x - 1.0) / (2.0 * z * z), q, alpha) + log_density
    top = float(np.max(logs))
    log_excess = top + math.log(float(np.sum(np.exp(logs - top))) * float(x[1] - x[0]))
    return _log1p_exp(log_excess) / (alpha - 1.0)


def _log_bregman(log_l: np.ndarray, log_r: np.ndarray, q: float, alpha: float) -> np.ndarray:
    """Return log(L^a - 1 - a (L - 1)), by its power series where L is close to 1."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        y = q * np.expm1(log_r)
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
        close = np.abs(y) * alpha < 0.05
        return np.where(close, near, np.where(log_l > 0, above, below))
