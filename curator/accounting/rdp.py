"""Renyi divergence of one use, and its conversion to epsilon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curator.accounting.events.base import PrivacyEvent


def rdp_at(event: PrivacyEvent, alpha: float) -> float:
    """Return the Renyi divergence of one use at any real order above one; see `LoneEvent.rdp`.

    Raises:
        ValueError: If `alpha` is not a finite number above 1.
    """
    if not 1 < alpha < math.inf:
        msg = "alpha must be a finite number above 1"
        raise ValueError(msg)
    return math.fsum(part.repeats * part.rdp(alpha) for part in event.parts)


def gaussian_rdp(noise_multiplier: float, alpha: float) -> float:
    """Return alpha / (2 z^2), the divergence of the Gaussian mechanism at any order."""
    return alpha / (2.0 * noise_multiplier * noise_multiplier)


def epsilon_from_rdp(alpha: float, rdp: float, delta: float) -> float:
    """Return the epsilon that divergence `rdp` at order `alpha` implies at `delta`, at least 0.

    References:
        [canonne:20], Proposition 12.
    """
    epsilon = rdp + math.log1p(-1.0 / alpha) - math.log(delta * alpha) / (alpha - 1.0)
    return max(0.0, epsilon)
