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
from typing import Any

from curator.accounting.events.base import LoneEvent, PoissonGaussian, PrivacyEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp
from curator.accounting.rule import IMPLEMENTATION_SLACK, BudgetRule

_TINY = 1e-300


def second_epsilon(rule: BudgetRule, used: Iterable[tuple[PrivacyEvent, int]]) -> float:
    """Return the smallest epsilon over the orders, each with its own share of delta.

    Args:
        rule: The data set's rule; only its delta and weights are read.
        used: Every event with the number of times that it was used.

    Returns:
        0.0 when nothing was used, infinity when no order is finite.
    """
    parts = [(part, n) for event, n in used if n > 0 for part in event.parts]
    if not parts:
        return 0.0
    known: list[tuple[PoissonGaussian, int]] = []
    unknown: list[tuple[LoneEvent, int]] = []
    for part, n in parts:
        if part.elsewhere is not None and part.elsewhere.is_all:
            known.append((part.elsewhere, n * part.repeats))
        else:
            unknown.append((part, n))
    delta = rule.budget.delta - float(IMPLEMENTATION_SLACK)
    best = math.inf
    for alpha, weight in zip(ORDERS, rule.weights, strict=True):
        share = delta * float(weight)
        if alpha == int(alpha) and not unknown:
            best = min(best, _by_dp_accounting(alpha, share, known))
            continue
        by_hand, total = parts, 0.0
        if alpha == int(alpha) and known:
            by_hand, total = unknown, _rdp_by_dp_accounting(alpha, known)
        total += math.fsum(divergence_by_definition(event, alpha) * n for event, n in by_hand)
        best = min(best, epsilon_from_rdp(alpha, total, share))
    return best


def _rdp_by_dp_accounting(alpha: float, uses: Sequence[tuple[PoissonGaussian, int]]) -> float:
    """Return the divergence that its epsilon was converted from, at a delta that clips nothing."""
    epsilon = _by_dp_accounting(alpha, _TINY, uses)
    return epsilon - epsilon_from_rdp(alpha, 0.0, _TINY)


def _by_dp_accounting(
    alpha: float, delta: float, uses: Sequence[tuple[PoissonGaussian, int]]
) -> float:
    import dp_accounting  # a second to import
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders=[alpha])
    for event, count in uses:
        accountant.compose(_foreign(dp_accounting, event), count)
    return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=256)
def divergence_by_definition(event: PrivacyEvent, alpha: float) -> float:
    """Return the divergence of one use, of each part in 40 digits by other means than `rdp`."""
    return math.fsum(part.repeats * part.by_definition(alpha) for part in event.parts)


def _foreign(library: Any, known: PoissonGaussian) -> Any:
    """Return dp-accounting's event."""
    gaussian = library.GaussianDpEvent(known.noise_multiplier)
    if known.sampling_rate >= 1:
        return gaussian
    return library.PoissonSampledDpEvent(known.sampling_rate, gaussian)
