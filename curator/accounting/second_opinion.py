"""The spent epsilon again, by other means than the ledger's.

At integer orders by dp-accounting's Renyi accountant; at fractional orders, where that one can be
several percent high, by adaptive quadrature in 40-digit arithmetic. dp-accounting does not know the
sliced Gaussian, sums whose sample may overflow, or hidden parts: for them, 40 digits serve at every
order. Only the events and the weights of the rule are shared with the ledger's own arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import mpmath

from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp, gaussian_rdp
from curator.accounting.rule import IMPLEMENTATION_SLACK, BudgetRule
from curator.accounting.sliced_definition import sliced_by_definition
from curator.privacy.event import (
    GaussianEvent,
    HiddenPartEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SampledSumEvent,
    SamplingRate,
    SlicedGaussianEvent,
    SumsThenGaussianEvent,
    parts_of,
)

_DIGITS = 40
_REACH = 14
_TINY = 1e-300
_BY_HAND = (SlicedGaussianEvent, SampledSlicedGaussianEvent, SampledSumEvent, HiddenPartEvent)


def second_epsilon(rule: BudgetRule, used: Iterable[tuple[PrivacyEvent, int]]) -> float:
    """Return the smallest epsilon over the orders, each with its own share of delta.

    Args:
        rule: The data set's rule; only its delta and weights are read.
        used: Every event with the number of times that it was used.

    Returns:
        0.0 when nothing was used, infinity when no order is finite.
    """
    uses = [
        (part, n)
        for event, n in used
        for part in parts_of(event)
        if n > 0 and not isinstance(part, NoEvent)
    ]
    if not uses:
        return 0.0
    known = [use for use in uses if not isinstance(use[0], _BY_HAND)]
    unknown = [use for use in uses if isinstance(use[0], _BY_HAND)]
    delta = rule.budget.delta - float(IMPLEMENTATION_SLACK)
    best = math.inf
    for alpha, weight in zip(ORDERS, rule.weights, strict=True):
        share = delta * float(weight)
        if alpha == int(alpha) and not unknown:
            best = min(best, _by_dp_accounting(alpha, share, known))
            continue
        by_hand, total = uses, 0.0
        if alpha == int(alpha) and known:
            by_hand, total = unknown, _rdp_by_dp_accounting(alpha, known)
        total += math.fsum(divergence_by_definition(event, alpha) * n for event, n in by_hand)
        best = min(best, epsilon_from_rdp(alpha, total, share))
    return best


def _rdp_by_dp_accounting(alpha: float, uses: Sequence[tuple[PrivacyEvent, int]]) -> float:
    """Return the divergence that its epsilon was converted from, at a delta that clips nothing."""
    epsilon = _by_dp_accounting(alpha, _TINY, uses)
    return epsilon - epsilon_from_rdp(alpha, 0.0, _TINY)


def _by_dp_accounting(
    alpha: float, delta: float, uses: Sequence[tuple[PrivacyEvent, int]]
) -> float:
    import dp_accounting  # a second to import
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders=[alpha])
    for event, count in uses:
        accountant.compose(_foreign(dp_accounting, event), count)
    return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=256)
def divergence_by_definition(event: PrivacyEvent, alpha: float) -> float:
    """Return log E_Q[L^a] / (a - 1), with E_Q[L^a - 1 - a (L - 1)] integrated in 40 digits."""
    if isinstance(event, NoEvent):
        return 0.0
    if isinstance(event, SlicedGaussianEvent | SampledSlicedGaussianEvent):
        return sliced_by_definition(event, alpha)
    if isinstance(event, SumsThenGaussianEvent):
        return math.fsum(divergence_by_definition(part, alpha) for part in parts_of(event))
    if isinstance(event, SampledSumEvent):
        return _sum_by_definition(event, alpha)
    if isinstance(event, HiddenPartEvent):
        return _hidden_part_by_definition(event, alpha)
    rate = float(event.sampling_rate) if isinstance(event, SampledGaussianEvent) else 1.0
    if rate >= 1:
        return gaussian_rdp(event.noise_multiplier, alpha)
    with mpmath.workdps(_DIGITS):
        q, z, a = (mpmath.mpf(value) for value in (rate, event.noise_multiplier, alpha))

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * z * z))
            return (ratio**a - 1 - a * (ratio - 1)) * mpmath.npdf(x, 0, z)

        marks = {_REACH * z * k / 7 + shift for k in range(-7, 8) for shift in (0, a)}
        excess = mpmath.quad(integrand, sorted(marks))
        return float(mpmath.log1p(excess) / (a - 1))


def _sum_by_definition(event: SampledSumEvent, alpha: float) -> float:
    """Return the divergence of all the releases, the overflow mixed before the logarithm."""
    with mpmath.workdps(_DIGITS):
        within, beyond = (
            _sampled_moment(event.sampling_rate, event.noise_multiplier / reach, alpha)
            for reach in (1, 2)
        )
        p = mpmath.mpf(event.overflow_probability)
        mixed = mpmath.log((1 - p) * within + p * beyond)
        return event.num_releases * float(mixed / (alpha - 1))


def _sampled_moment(rate: SamplingRate, noise_multiplier: float, alpha: float) -> mpmath.mpf:
    """Return E_Q[L^a]: at integer orders a sum over how often the unit is in a sample."""
    if alpha != int(alpha):
        one = SampledGaussianEvent(sampling_rate=rate, noise_multiplier=noise_multiplier)
        return mpmath.exp((alpha - 1) * mpmath.mpf(divergence_by_definition(one, alpha)))
    q, z, a = mpmath.mpf(float(rate)), mpmath.mpf(noise_multiplier), int(alpha)
    return mpmath.fsum(
        mpmath.binomial(a, j) * (1 - q) ** (a - j) * q**j * mpmath.exp(j * (j - 1) / (2 * z * z))
        for j in range(a + 1)
    )


def _hidden_part_by_definition(event: HiddenPartEvent, alpha: float) -> float:
    """Return the bound of `hidden_part.py`, its integral in 40 digits."""
    with mpmath.workdps(_DIGITS):
        q, z, a = (mpmath.mpf(v) for v in (event.num_parts, event.noise_multiplier, alpha))
        q = 1 / q

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * z * z))
            return (ratio**a + ratio ** (1 - a) - 1 - ratio) * mpmath.npdf(x, 0, z)

        marks = {_REACH * z * k / 7 + shift for k in range(-7, 8) for shift in (0, a)}
        above = [mpmath.mpf(0.5), *sorted(mark for mark in marks if mark > 0.5)]
        excess = mpmath.quad(integrand, above)
        bound = float(mpmath.log1p(excess) / (a - 1))
        return min(bound, gaussian_rdp(event.noise_multiplier, alpha))


def _foreign(library: Any, event: PrivacyEvent) -> Any:
    """Return dp-accounting's event.

    Raises:
        TypeError: If it has none.
    """
    match event:
        case NoEvent():
            return library.NoOpDpEvent()
        case GaussianEvent(noise_multiplier=z):
            return library.GaussianDpEvent(z)
        case SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z):
            return library.PoissonSampledDpEvent(float(rate), library.GaussianDpEvent(z))
        case (
            SlicedGaussianEvent()
            | SampledSlicedGaussianEvent()
            | SampledSumEvent()
            | SumsThenGaussianEvent()
            | HiddenPartEvent()
        ):
            msg = "dp-accounting does not know this event"
            raise TypeError(msg)
        case _ as never:
            assert_never(never)
