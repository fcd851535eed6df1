"""Renyi divergence of one release, and its conversion to epsilon.

Integer orders of the Poisson-sampled Gaussian are finite sums of positive terms; real orders are
left to `quadrature.py`.

In the formulas q is the sampling rate, z the noise multiplier, a the order, r = dP/dQ the ratio
of N(1, z^2) to N(0, z^2), L = 1 - q + q r, and A = E_Q[L^a] = exp((a - 1) rho(a)).
"""

from __future__ import annotations

import math
from typing import assert_never

from curator.accounting.hidden_part import hidden_part_rdp
from curator.accounting.poisson import log_sampled_excess
from curator.accounting.quadrature import log1p_exp, sampled_gaussian_rdp_at
from curator.accounting.sampled_sum import mixed_rdp
from curator.accounting.sliced import sampled_sliced_rdp, sliced_rdp
from curator.privacy.event import (
    GaussianEvent,
    HiddenPartEvent,
    LoneEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SampledSumEvent,
    SlicedGaussianEvent,
    parts_of,
)


def rdp_at(event: PrivacyEvent, alpha: float) -> float:
    """Return the Renyi divergence of one release at order `alpha`.

    Args:
        event: The release; the sampled Gaussian in its worse direction, which is remove.
        alpha: Any real order above 1.

    Returns:
        The divergence; exact up to float rounding at integer orders, by quadrature elsewhere. Of
        the sampled sliced Gaussian an upper bound: where a batch may overflow, and at fractional
        orders. Of a sampled sum too, where a batch may overflow, and of a hidden part.

    Raises:
        ValueError: If `alpha` is not a finite number above 1.

    References:
        [mironov:19], Section 3.3.
    """
    if not 1 < alpha < math.inf:
        msg = "alpha must be a finite number above 1"
        raise ValueError(msg)
    return math.fsum(_rdp_at(part, alpha) for part in parts_of(event))


def _rdp_at(event: LoneEvent, alpha: float) -> float:
    match event:
        case NoEvent():
            return 0.0
        case GaussianEvent(noise_multiplier=z):
            return gaussian_rdp(z, alpha)
        case SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z):
            return _sampled_gaussian(float(rate), z, alpha)
        case SampledSumEvent(sampling_rate=rate, noise_multiplier=z, overflow_probability=p):
            q = float(rate)
            within, beyond = _sampled_gaussian(q, z, alpha), _sampled_gaussian(q, z / 2, alpha)
            return event.num_releases * mixed_rdp(within, beyond, p, alpha)
        case HiddenPartEvent(num_parts=num_parts, noise_multiplier=z):
            return hidden_part_rdp(num_parts, z, alpha)
        case SlicedGaussianEvent() | SampledSlicedGaussianEvent():
            return _sliced(event, alpha)
        case _ as never:
            assert_never(never)


def _sliced(event: SlicedGaussianEvent | SampledSlicedGaussianEvent, alpha: float) -> float:
    if isinstance(event, SlicedGaussianEvent):
        return sliced_rdp(event, alpha)
    return sampled_sliced_rdp(event, alpha)


def _sampled_gaussian(q: float, z: float, alpha: float) -> float:
    if q >= 1:
        return gaussian_rdp(z, alpha)
    if alpha == int(alpha):
        return sampled_gaussian_rdp(q, z, int(alpha))
    return sampled_gaussian_rdp_at(q, z, alpha)


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
    scale = 1.0 / (2.0 * noise_multiplier * noise_multiplier)
    moments = [i * (i - 1) * scale for i in range(2, alpha + 1)]
    log_excess = log_sampled_excess(sampling_rate, alpha, moments)
    return log1p_exp(log_excess) / (alpha - 1)


def epsilon_from_rdp(alpha: float, rdp: float, delta: float) -> float:
    """Return the epsilon that divergence `rdp` at order `alpha` implies at `delta`, at least 0.

    References:
        [canonne:20], Proposition 12.
    """
    epsilon = rdp + math.log1p(-1.0 / alpha) - math.log(delta * alpha) / (alpha - 1.0)
    return max(0.0, epsilon)
