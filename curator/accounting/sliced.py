"""Renyi divergence of the sliced Gaussian: projections on fresh directions, all of them noised.

Given the k directions U, a row z of norm R moves the output by |z^T U|, so the moment of order a is
E_U exp(a (a - 1) |z^T U|^2 / (2 s^2)). |z^T U|^2 = R^2 (b_1 + ... + b_k) with b_j independent
Beta(1/2, (d - 1) / 2), whose exponential moment is Kummer's function: M_a = 1F1(1/2; d/2; t)^k at
t = a (a - 1) R^2 / (2 s^2). This is an equality for continuous noise at every real order, grows
with R, and stays an upper bound for the discrete Gaussian, an equality at integers
[canonne:20, proposition 5].

A Poisson sample in random slots changes by one row when a unit is added or removed: the slots of
the others have the same law with and without it. If the slots are full, which has probability at
most p, a row may be replaced and moves by at most 2 R. By joint convexity of the moment,
A <= (1 - p) A(R) + p A(2 R). Removing is the worse direction for every U, hence on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from curator.accounting.hypergeometric import log_1f1
from curator.accounting.poisson import log_expm1, log_sampled_excess
from curator.accounting.quadrature import log1p_exp
from curator.privacy.event import (
    SampledSlicedGaussianEvent,
    SamplingRate,
    SlicedGaussianEvent,
)

_FAR = 60.0
_SMALL_SHARE = 0.01
_CLOSE = 1e-9
_LOG_ROOT_PI = 0.5 * math.log(math.pi)
_ROUNDING = 1e-6  # of the overflow probability: lgamma of at most 1e10 is exact to 1e-5 relative


def sliced_rdp(event: SlicedGaussianEvent, alpha: float) -> float:
    """Return the divergence at any real order above 1, within 1e-13 relative.

    References:
        [rakotomamonjy:21]; the exact curve is derived in this module's docstring.
    """
    return log_sliced_moment(event, alpha) / (alpha - 1.0)


def log_sliced_moment(event: SlicedGaussianEvent, alpha: float, row_scale: float = 1.0) -> float:
    """Return log M_alpha for a row of norm `row_scale` times R."""
    z = event.noise_multiplier / row_scale
    t = alpha * (alpha - 1.0) / (2.0 * z * z)
    return event.num_projections * log_projection_moment(event.dimension / 2.0, t)


def log_projection_moment(b: float, t: float) -> float:
    """Return log 1F1(1/2; b; t), and for very large `t` an upper bound that takes no sum.

    1F1(1/2; b; t) = e^t E exp(-t x) with x ~ Beta(b - 1/2, 1/2). Its density is at most
    x^(b - 3/2) (1 - v)^(-1/2) Gamma(b) / (Gamma(b - 1/2) Gamma(1/2)) below any v in (0, 1), and
    what lies above adds at most exp(-t v), so

        E exp(-t x) <= (1 - v)^(-1/2) Gamma(b) / Gamma(1/2) t^(1/2 - b) + exp(-t v).

    With t v = b log t + 60 the bound of log 1F1, which is above t / 2 there, is too large by about
    v / 2; it is used where that is a relative 1e-11, and little noise is then as cheap to price as
    much.

    Args:
        b: At least 1/2.
        t: Non-negative.

    Returns:
        The logarithm within 1e-13 relative, or the bound, at most 2e-11 relative above.
    """
    if b == 0.5:  # one coordinate: a projection keeps the whole length
        return t
    share = (b * math.log(max(t, 1.0)) + _FAR) / max(t, 1.0)
    if not 0 < share <= _SMALL_SHARE * min(1.0, t * _CLOSE):
        return log_1f1(b, t)
    main = math.lgamma(b) - _LOG_ROOT_PI - (b - 0.5) * math.log(t) - 0.5 * math.log1p(-share)
    return t + main + math.log1p(math.exp(min(0.0, -t * share - main)))


def sampled_sliced_rdp(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return an upper bound of the divergence of the sampled sliced Gaussian.

    At integer orders and without overflow it is an equality for the worst data. Between them it is
    the least of three upper bounds, of which the last decides unless nearly all units are sampled:

    - the divergence without sampling;
    - the chord of log A between the neighbouring integers, as log A is convex in a, 0 at a = 1;
    - the chord of log C with C = (A - 1) / (a (a - 1)). With y = L - 1, where L is the ratio of the
      densities and E y = 0, C = E[y^2 * integral_0^1 (1 - t) (1 + t y)^(a - 2) dt]: a mixture of
      exponentials in a, whose logarithm is convex. Below a = 2 there is no integer to the left;
      there (1 + t y)^(a - 2) <= (1 - q)^(a - 2), since y >= -q, so C <= (1 - q)^(a - 2) C(2).

    All three hold for every pair of distributions, so for discrete noise, and for mixtures over
    samples, slots, directions and overflow; they grow with what is put in at the integers.

    Args:
        event: The release.
        alpha: Real order above 1.

    Returns:
        The bound, up to float rounding below 1e-10 relative, which the charge's inflation covers.
    """
    if alpha == int(alpha):
        return log1p_exp(_log_excess(event, int(alpha))) / (alpha - 1.0)
    unsampled = log1p_exp(_unsampled(event, alpha))
    return min(_between(event, alpha), unsampled) / (alpha - 1.0)


def _between(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return the lesser chord of log A at a fractional order."""
    below = math.floor(alpha)
    share = alpha - below
    above = _log_excess(event, below + 1)
    left = _log_excess(event, below) if below > 1 else -math.inf
    chord = (1.0 - share) * log1p_exp(left) + share * log1p_exp(above)
    rate = float(event.sampling_rate)
    if below > 1:
        at_left = left - math.log(below * (below - 1))
        at_right = above - math.log((below + 1) * below)
        log_c = (1.0 - share) * at_left + share * at_right
    elif rate < 1:
        log_c = above - math.log(2.0) + (alpha - 2.0) * math.log1p(-rate)
    else:
        return chord
    return min(chord, log1p_exp(log_c + math.log(alpha * (alpha - 1.0))))


def overflow_probability(max_size: int, sampling_rate: SamplingRate, capacity: int) -> float:
    """Return at least the probability that a Poisson sample fills `capacity` slots.

    The ratio of successive binomial probabilities falls, so from k = capacity on the tail is at
    most a geometric series. The first term is taken from lgamma and inflated.

    Args:
        max_size: Declared upper bound of the number of units; fewer units overflow less.
        sampling_rate: q.
        capacity: Number of slots.

    Returns:
        A number in [0, 1]; 1 where the capacity is not above the mean.

    Raises:
        ValueError: If a size is not an integer in [1, 2**32].
    """
    for size in (max_size, capacity):
        if type(size) is not int or not 1 <= size <= 1 << 32:
            msg = "max_size and capacity must be integers in [1, 2**32]"
            raise ValueError(msg)
    q = sampling_rate.exact
    if capacity > max_size:
        return 0.0
    ratio = Fraction(max_size - capacity) * q / ((capacity + 1) * (1 - q)) if q < 1 else Fraction(1)
    if ratio >= 1:
        return 1.0
    log_choose = (
        math.lgamma(max_size + 1) - math.lgamma(capacity + 1) - math.lgamma(max_size - capacity + 1)
    )
    rate = float(q)
    log_first = log_choose + capacity * math.log(rate) + (max_size - capacity) * math.log1p(-rate)
    slack = _ROUNDING + 1e-14 * abs(math.lgamma(max_size + 1))
    return min(1.0, math.exp(log_first + slack) / (1.0 - float(ratio)) * (1 + 1e-9))


def _log_excess(event: SampledSlicedGaussianEvent, alpha: int) -> float:
    """Return log(A - 1) at an integer order, with the overflow mixed in."""
    q = float(event.sampling_rate)
    if q >= 1:
        return _unsampled(event, alpha)

    def sampled(row_scale: float) -> float:
        moments = [log_sliced_moment(event.base, float(i), row_scale) for i in range(2, alpha + 1)]
        return log_sampled_excess(q, alpha, moments)

    return _mixed(event.overflow_probability, sampled)


def _unsampled(event: SampledSlicedGaussianEvent, alpha: float) -> float:
    """Return log(M - 1) as if every unit were in the sample, with the overflow mixed in."""

    def excess(row_scale: float) -> float:
        return log_expm1(log_sliced_moment(event.base, alpha, row_scale))

    return _mixed(event.overflow_probability, excess)


def _mixed(overflow: float, log_excess: Callable[[float], float]) -> float:
    """Return log((1 - p) E(R) + p E(2 R)) from log E at a multiple of the row norm."""
    if overflow == 0:
        return log_excess(1.0)
    full = math.log(overflow) + log_excess(2.0)
    if overflow >= 1:
        return full
    rest = math.log1p(-overflow) + log_excess(1.0)
    top = max(full, rest)
    return top + math.log(math.exp(full - top) + math.exp(rest - top))
