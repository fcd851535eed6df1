"""Privacy loss distribution of sums over Poisson samples: information, never a charge.

Whether the sample fits is told to whoever sees the release, which only makes it worse; then the
profile is a mean of two Gaussians' with weights 1 - p and p.
"""

from __future__ import annotations

import numpy as np

from curator.accounting.profile import Floats, composed_epsilon
from curator.accounting.sliced_pld import add_profile, remove_profile
from curator.privacy.event import SampledSumEvent

_DISCRETENESS = 1 - 1e-9  # the drawn noise is a post-processing of slightly less noise


def sampled_sum_pld_epsilon(
    event: SampledSumEvent, num_events: int, delta: float, interval: float
) -> float:
    """Return the epsilon of events declared in advance, the worse direction.

    Args:
        event: One use, of `event.num_releases` releases.
        num_events: The declared number of uses.
        delta: In (0, 1).
        interval: Spacing of the losses.

    Returns:
        An upper bound.

    References:
        [zhu:22], Theorem 11; [balle:18], Theorem 2.
    """
    rate, overflow = float(event.sampling_rate), event.overflow_probability
    shifts = np.array([1.0, 2.0]) / (event.noise_multiplier * _DISCRETENESS)
    weights = np.array([1.0 - overflow, overflow])
    kept = weights > 0

    def remove(losses: Floats) -> Floats:
        return remove_profile(losses, rate, shifts[kept], weights[kept])

    def add(losses: Floats) -> Floats:
        return add_profile(losses, rate, shifts[kept], weights[kept])

    num_releases = num_events * event.num_releases
    return max(
        composed_epsilon(remove, add, num_releases, delta, interval),
        composed_epsilon(add, remove, num_releases, delta, interval),
    )
