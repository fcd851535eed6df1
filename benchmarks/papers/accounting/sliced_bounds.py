"""What the paper of DP-SWD charges for random projections, beside the exact curve; never a charge.

The paper bounds the squared length of a unit row's projections once, by a number w that is exceeded
with probability delta / 2, and treats the release as a Gaussian of sensitivity sqrt(w). Bernstein's
inequality proves its w, far too large; the central limit theorem's w is about right and proves
nothing: it is asymptotic, and the directions are drawn anew in every step while delta / 2 is spent
once. The exact curve, `sliced.py`, needs no w.

The paper samples without replacement and replaces a record. Here its w are priced as the ledger
prices, for Poisson samples and the given noise over the row's norm, so that the lines compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

from curator.accounting.epsilon_alone import renyi_epsilon
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sliced_gaussian import SampledSlicedGaussianEvent, sampled_sliced_rdp
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER, MIN_NOISE_MULTIPLIER

_SHARE: Final = 0.5  # of delta, that the paper spends on w
_TOLERANCE: Final = 1e-4  # of the noises, relative
_FEW: Final = 64  # orders up to here serve an epsilon of 1 and above
_MANY: Final = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperBounds:
    """The epsilon that each argument gives for one noise, and the noise for one epsilon.

    Attributes:
        bernstein_epsilon: By the proved w.
        central_limit_epsilon: By the other; not rigorous.
        target_epsilon: What the noises below are for.
        bernstein_noise: Noise std over the row's norm that the proved w asks for; None if no noise
            that an event may have is enough.
        central_limit_noise: Likewise; not rigorous.
        sufficient_noise: What the exact curve asks for.
    """

    bernstein_epsilon: float
    central_limit_epsilon: float
    target_epsilon: float
    bernstein_noise: float | None
    central_limit_noise: float | None
    sufficient_noise: float | None


def bernstein_square(dimension: int, num_projections: int, probability: float) -> float:
    """Return w exceeded with at most `probability`, by Bernstein's inequality.

    References:
        [rakotomamonjy:21], lemma 2.
    """
    log = -math.log(probability)
    spread = math.sqrt(num_projections * (dimension - 1) / (dimension + 2) * log)
    return num_projections / dimension + 2.0 * log / 3.0 + 2.0 * spread / dimension


def central_limit_square(dimension: int, num_projections: int, probability: float) -> float:
    """Return the normal quantile of the squared length: an approximation, no bound.

    References:
        [rakotomamonjy:21], proposition 1.
    """
    spread = math.sqrt(2.0 * num_projections * (dimension - 1) / (dimension + 2))
    quantile = NormalDist().inv_cdf(1.0 - probability)
    return num_projections / dimension + quantile * spread / dimension


def paper_bounds(
    event: SampledSlicedGaussianEvent, num_steps: int, epsilon: float, delta: float
) -> PaperBounds:
    """Return what the paper's two arguments say of releases declared in advance.

    Args:
        event: One release.
        num_steps: How many.
        epsilon: For which noises are looked for.
        delta: Of all releases together.

    Returns:
        Epsilons at the best order of the grid.
    """
    base = event.base
    sizes = base.dimension, base.num_projections, _SHARE * delta
    proved, limit = (math.sqrt(w(*sizes)) for w in (bernstein_square, central_limit_square))

    def gaussian(noise_multiplier: float) -> PrivacyEvent:
        clamped = min(max(noise_multiplier, MIN_NOISE_MULTIPLIER), MAX_NOISE_MULTIPLIER)
        return SampledGaussianEvent(sampling_rate=event.sampling_rate, noise_multiplier=clamped)

    def by_length(length: float) -> float:
        scaled = gaussian(base.noise_multiplier / length)
        return renyi_epsilon(scaled, num_steps, (1 - _SHARE) * delta)

    orders = tuple(alpha for alpha in ORDERS if alpha <= (_FEW if epsilon >= 1 else _MANY))
    plain = _least(
        lambda z: renyi_epsilon(gaussian(z), num_steps, (1 - _SHARE) * delta), 1.0, epsilon
    )

    def exact(noise_multiplier: float) -> float:
        one = SampledSlicedGaussianEvent(
            sampling_rate=event.sampling_rate,
            base=replace(base, noise_multiplier=noise_multiplier),
            overflow_probability=event.overflow_probability,
        )
        costs = ((alpha, num_steps * sampled_sliced_rdp(one, alpha)) for alpha in orders)
        return min(epsilon_from_rdp(alpha, cost, delta) for alpha, cost in costs)

    return PaperBounds(
        bernstein_epsilon=by_length(proved),
        central_limit_epsilon=by_length(limit),
        target_epsilon=epsilon,
        bernstein_noise=None if plain is None else plain * proved,
        central_limit_noise=None if plain is None else plain * limit,
        sufficient_noise=_least(exact, limit * (plain or 1.0), epsilon),
    )


def _least(epsilon_of: Callable[[float], float], guess: float, epsilon: float) -> float | None:
    """Return a noise multiplier, within 1e-4 above the least whose epsilon is at most `epsilon`."""
    high = min(max(guess, MIN_NOISE_MULTIPLIER), MAX_NOISE_MULTIPLIER)
    while epsilon_of(high) > epsilon:
        if high >= MAX_NOISE_MULTIPLIER:
            return None
        high = min(2.0 * high, MAX_NOISE_MULTIPLIER)
    low = high / 2.0
    while low > MIN_NOISE_MULTIPLIER and epsilon_of(low) <= epsilon:
        high, low = low, low / 2.0
    if low <= MIN_NOISE_MULTIPLIER:
        return high  # as little as an event may have, or nearly
    while high > low * (1 + _TOLERANCE):
        middle = math.sqrt(low * high)
        if epsilon_of(middle) <= epsilon:
            high = middle
        else:
            low = middle
    return high
