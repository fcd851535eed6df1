"""Composition of a mechanism that is known by its privacy profile: connect the dots, then FFT.

A profile is delta(e) = H_t(P || Q) at t = exp(e) >= 1; below one, H_t(P || Q) = 1 - t +
t H_{1/t}(Q || P), so the two directions' profiles at e >= 0 are all that there is to know. The
grid distribution that agrees with the profile at its points and is linear in t between them has a
larger profile everywhere, because profiles are convex in t: it dominates [doroshenko:22].

Below zero the term 1 - t, which is linear, is left out before differences are taken: the masses
there come from small numbers, not from differences of numbers near one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Profile = Callable[[Floats], Floats]

DISCRETENESS: Final = 1 - 1e-9  # the drawn noise is a post-processing of slightly less noise
MIN_NOISE_MULTIPLIER: Final = 0.2  # below, one release's losses would fill gigabytes
_MAX_EPSILON: Final = 50.0  # above, the composed losses would; nobody needs the digits
_MAX_RELEASES: Final = 20_000_000
_STEP_ERROR: Final = 1e-14  # of the composed probabilities, per step; delta must be above it

_NEGLIGIBLE: Final = 1e-8  # of delta, what all steps together may put at infinite loss
_MAX_LOSS: Final = 200.0
_PROBES: Final = 4001
_TOO_LARGE: Final = 5e-5
_VANISHING: Final = 1e-200  # a mass that counts as infinite loss: dp-accounting divides by masses
_FFT_ERROR: Final = 2e-16
_COARSEST: Final = 1e-4
_FINEST: Final = 5e-6  # millions of losses


_COARSEST_FIT, _FINEST_FIT = 1e-2, 1e-5
_PRECISION: Final = 1e-5
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of one release, H_t(P || Q) and H_t(Q || P), when a unit is removed or added."""

    remove: Profile
    add: Profile


def mixture_profiles(rate: float, shifts: Floats, weights: Floats) -> Profiles:
    """Return the profiles of a Gaussian of a Poisson sample whose shift is drawn and told.

    Args:
        rate: q in (0, 1].
        shifts: In standard deviations of the noise.
        weights: Their probabilities.
    """

    def remove(losses: Floats) -> Floats:
        return remove_profile(losses, rate, shifts, weights)

    def add(losses: Floats) -> Floats:
        return add_profile(losses, rate, shifts, weights)

    return Profiles(remove, add)


def sampled_gaussian_profiles(
    rate: float, noise_multiplier: float, overflow: float = 0.0
) -> Profiles:
    """Return the profiles of a Gaussian of a Poisson sample that may not fit its places.

    Args:
        rate: q in (0, 1].
        noise_multiplier: Of the drawn, discrete noise.
        overflow: Probability of twice the shift.
    """
    shifts = np.array([1.0, 2.0]) / (noise_multiplier * DISCRETENESS)
    weights = np.array([1.0 - overflow, overflow])
    kept = weights > 0
    return mixture_profiles(rate, shifts[kept], weights[kept])


def remove_profile(losses: Floats, q: float, shifts: Floats, weights: Floats) -> Floats:
    """Return H_t((1-q) Q + q P || Q) = q H_{1 + (t-1)/q}(P || Q) at t = exp(losses) >= 1."""
    log_t = np.logaddexp(0.0, np.log(np.expm1(np.maximum(losses, 1e-300))) - math.log(q))
    return q * _gaussian(np.where(losses <= 0, 0.0, log_t), shifts, weights)


def add_profile(losses: Floats, q: float, shifts: Floats, weights: Floats) -> Floats:
    """Return H_t(Q || (1-q) Q + q P) = s H_{t q / s}(Q || P), s = 1 - t (1-q), or 0 if s <= 0."""
    share = q - np.expm1(losses) * (1.0 - q)
    inside = share > 0
    safe = np.where(inside, share, 1.0)
    log_t = losses + math.log(q) - np.log(safe)
    return np.where(inside, safe * _gaussian(np.maximum(log_t, 0.0), shifts, weights), 0.0)


def _gaussian(log_t: Floats, shifts: Floats, weights: Floats) -> Floats:
    """Return the average of H_t(N(shift, 1) || N(0, 1)) at t >= 1, relatively accurate."""
    from scipy.special import log_ndtr  # here: the ledger's commands need no scipy

    total = np.zeros_like(log_t)
    for shift, weight in zip(shifts, weights, strict=True):
        upper = log_ndtr(shift / 2.0 - log_t / shift)
        lower = log_ndtr(-shift / 2.0 - log_t / shift)
        total += weight * np.exp(upper) * -np.expm1(np.minimum(log_t + lower - upper, 0.0))
    return total


def fits_in_steps(num_releases: int, delta: float) -> bool:
    """Return whether so many releases can be composed: delta must be above the FFT's error."""
    return num_releases <= _MAX_RELEASES and num_releases * _STEP_ERROR <= delta


def fits_a_grid(ceiling: float, num_releases: int, delta: float) -> bool:
    """Return whether the composed losses fit into memory, and their error into delta."""
    return ceiling <= _MAX_EPSILON and fits_in_steps(num_releases, delta)


def epsilon_of_uses(uses: Sequence[tuple[Profiles, int]], delta: float, interval: float) -> float:
    """Return the epsilon of releases that are not alike, the worse direction.

    Returns:
        An upper bound for the given profiles, at least 0.

    References:
        [doroshenko:22]; [zhu:22], Theorem 11.
    """
    num_releases = sum(count for _, count in uses)
    kept = kept_delta(num_releases, delta)
    epsilons = []
    for removes in (True, False):
        total: Any = None
        for of_one, count in uses:
            ways = (of_one.remove, of_one.add) if removes else (of_one.add, of_one.remove)
            pmf = release_pmf(*ways, num_releases, delta, interval).self_compose(count)
            total = pmf if total is None else total.compose(pmf)
        epsilons.append(float(total.get_epsilon_for_delta(kept)))
    return max(0.0, *epsilons)


def fitted_epsilon(forward: Profile, backward: Profile, num_steps: int, delta: float) -> float:
    """Return an epsilon on losses whose spacing fits it: rounding them adds variance each step."""
    interval, epsilon = _COARSEST_FIT, math.inf
    for _ in range(_ROUNDS):
        epsilon = composed_epsilon(forward, backward, num_steps, delta, interval)
        fitting = epsilon * math.sqrt(12 * _PRECISION / (num_steps * -math.log(delta)))
        if interval <= max(_FINEST_FIT, 1.5 * fitting):
            break
        interval = max(_FINEST_FIT, fitting)
    return epsilon


def composed_epsilon(
    forward: Profile, backward: Profile, num_steps: int, delta: float, interval: float
) -> float:
    """Return the epsilon of `num_steps` releases of which each has the given profile.

    Args:
        forward: H_t(P || Q) at losses e >= 0, shape of its argument; non-increasing.
        backward: H_t(Q || P), likewise.
        num_steps: Number of compositions.
        delta: In (0, 1).
        interval: Spacing of the grid of losses; see `grid_interval`.

    Returns:
        An upper bound for the given profile, at least 0. The FFT errs by about 1e-16 per step in
        the probabilities; twice that is taken from delta.

    Raises:
        ValueError: If nothing of delta is left then.

    References:
        [doroshenko:22], Algorithm 1.
    """
    kept = kept_delta(num_steps, delta)
    one = release_pmf(forward, backward, num_steps, delta, interval)
    return max(0.0, float(one.self_compose(num_steps).get_epsilon_for_delta(kept)))


def kept_delta(num_steps: int, delta: float) -> float:
    """Return what of delta is left when the error of the FFT is taken away.

    Raises:
        ValueError: If nothing is.
    """
    kept = delta - num_steps * _FFT_ERROR
    if kept <= 0:
        msg = "delta is too small for so many steps"
        raise ValueError(msg)
    return kept


def release_pmf(
    forward: Profile, backward: Profile, num_steps: int, delta: float, interval: float
) -> Any:
    """Return the losses of one release that has the given profile, as dp-accounting keeps them.

    Args:
        forward: As for `composed_epsilon`.
        backward: Likewise.
        num_steps: Releases that will be composed; it says how small a loss may be left out.
        delta: Of all of them.
        interval: Spacing of the losses.
    """
    from dp_accounting.pld import pld_pmf  # a second to import

    small = min(1e-16, _NEGLIGIBLE * delta / num_steps)
    high = _first_below(forward, small, interval)
    low = -_first_below(lambda loss: np.exp(-loss) * backward(loss), small, interval)
    masses, infinite = _connect_the_dots(forward, backward, low, high, interval)
    kept_losses = np.flatnonzero(masses)
    first, last = int(kept_losses[0]), int(kept_losses[-1])
    return pld_pmf.DensePLDPmf(
        discretization=interval,
        lower_loss=low + first,
        probs=masses[first : last + 1],
        infinity_mass=infinite,
        pessimistic_estimate=True,
    )


def grid_interval(epsilon: float, num_steps: int, delta: float) -> float:
    """Return a spacing of losses for which epsilon is about 1e-4 too large, or less.

    Each step's losses gain a variance of about h^2 / 12 by rounding; epsilon grows by about
    log(1 / delta) / epsilon times the variance that all steps gain.
    """
    squared = 12.0 * _TOO_LARGE * epsilon / (num_steps * max(1.0, -math.log(delta)))
    return min(_COARSEST, max(_FINEST, math.sqrt(squared)))


def _first_below(profile: Profile, small: float, interval: float) -> int:
    """Return the number of intervals beyond which a non-increasing profile is below `small`."""
    probes = np.linspace(0.0, _MAX_LOSS, _PROBES)
    below = np.flatnonzero(profile(probes) <= small)
    reach = probes[below[0]] if below.size else _MAX_LOSS
    return int(np.ceil(reach / interval)) + 1


def _connect_the_dots(
    forward: Profile, backward: Profile, low: int, high: int, interval: float
) -> tuple[Floats, float]:
    """Return the masses on the losses low .. high, in intervals, and the mass at infinity."""
    losses = np.arange(low, high + 1, dtype=np.float64) * interval
    zero = -low
    positive = np.asarray(forward(losses[zero:]), dtype=np.float64)
    reduced = np.empty(losses.size)  # delta below zero without its linear part, delta from zero on
    reduced[:zero] = np.exp(losses[:zero]) * backward(-losses[:zero])
    reduced[zero:] = positive
    rise = np.diff(reduced)
    gap = np.expm1(interval)
    masses = np.zeros(losses.size)
    masses[1:-1] = (rise[1:] - np.exp(interval) * rise[:-1]) / gap
    masses[zero] += 1.0  # the linear part that was left out below zero only
    masses[0] = rise[0] / gap - reduced[0]
    masses[-1] = -rise[-1] * np.exp(interval) / gap
    vanishing = masses < _VANISHING
    infinite = float(positive[-1]) + math.fsum(np.maximum(masses[vanishing], 0.0).tolist())
    masses[vanishing] = 0.0
    # the masses sum to one but for rounding, which a million steps would magnify
    return masses * ((1.0 - infinite) / math.fsum(masses.tolist())), infinite
