"""Privacy loss distribution of sums over Poisson samples, alone or with a last Gaussian release.

It is information, never a charge.

Whether the sample fits is told to whoever sees the release, which only makes it worse; then the
profile is a mean of two Gaussians' with weights 1 - p and p.
"""

from __future__ import annotations

import numpy as np

from curator.accounting.profile import (
    Floats,
    Profile,
    composed_epsilon,
    kept_delta,
    release_pmf,
)
from curator.accounting.sliced_pld import add_profile, remove_profile
from curator.privacy.event import SampledSumEvent, SumsThenGaussianEvent

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
    num_releases = num_events * event.num_releases
    remove, add = sampled_sum_profiles(event)
    return max(
        composed_epsilon(remove, add, num_releases, delta, interval),
        composed_epsilon(add, remove, num_releases, delta, interval),
    )


def sums_then_gaussian_pld_epsilon(
    event: SumsThenGaussianEvent, num_events: int, delta: float, interval: float
) -> float:
    """Return the epsilon of sums with a last release, declared in advance, the worse direction.

    Args:
        event: One use.
        num_events: The declared number of uses.
        delta: In (0, 1).
        interval: Spacing of the losses.

    Returns:
        An upper bound.

    References:
        [doroshenko:22]; [zhu:22], Theorem 11.
    """
    num_sums = num_events * event.sums.num_releases
    num_releases = num_sums + num_events
    kept = kept_delta(num_releases, delta)
    shifts = np.array([1.0]) / (event.noise_multiplier * _DISCRETENESS)

    def last(losses: Floats) -> Floats:  # both directions are alike
        return remove_profile(losses, 1.0, shifts, np.array([1.0]))

    remove, add = sampled_sum_profiles(event.sums)
    of_last = release_pmf(last, last, num_releases, delta, interval).self_compose(num_events)
    epsilons = []
    for forward, backward in ((remove, add), (add, remove)):
        one = release_pmf(forward, backward, num_releases, delta, interval)
        total = one.self_compose(num_sums).compose(of_last)
        epsilons.append(float(total.get_epsilon_for_delta(kept)))
    return max(0.0, *epsilons)


def sampled_sum_profiles(event: SampledSumEvent) -> tuple[Profile, Profile]:
    """Return the profiles of one sum when a unit is removed, and when it is added.

    Args:
        event: Of which one release is meant.
    """
    rate, overflow = float(event.sampling_rate), event.overflow_probability
    shifts = np.array([1.0, 2.0]) / (event.noise_multiplier * _DISCRETENESS)
    weights = np.array([1.0 - overflow, overflow])
    kept = weights > 0

    def remove(losses: Floats) -> Floats:
        return remove_profile(losses, rate, shifts[kept], weights[kept])

    def add(losses: Floats) -> Floats:
        return add_profile(losses, rate, shifts[kept], weights[kept])

    return remove, add
