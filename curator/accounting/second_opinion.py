"""The spent epsilon again, by another library: dp-accounting's Renyi accountant.

It shares nothing with the ledger's own arithmetic but the events and the weights of the rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, assert_never

from curator.accounting.orders import ORDERS
from curator.accounting.rule import IMPLEMENTATION_SLACK, BudgetRule
from curator.privacy.event import GaussianEvent, NoEvent, PrivacyEvent, SampledGaussianEvent


def second_epsilon(rule: BudgetRule, used: Iterable[tuple[PrivacyEvent, int]]) -> float:
    """Return the smallest epsilon over the orders, each with its own share of delta.

    Args:
        rule: The data set's rule; only its delta and weights are read.
        used: Every event with the number of times that it was used.

    Returns:
        0.0 when nothing was used, infinity when no order is finite.
    """
    import dp_accounting  # a second to import
    from dp_accounting.rdp import rdp_privacy_accountant

    events = [
        (_foreign(dp_accounting, event), count)
        for event, count in used
        if count > 0 and not isinstance(event, NoEvent)
    ]
    if not events:
        return 0.0
    delta = rule.budget.delta - float(IMPLEMENTATION_SLACK)
    best = math.inf
    for alpha, weight in zip(ORDERS, rule.weights, strict=True):
        accountant = rdp_privacy_accountant.RdpAccountant(orders=[alpha])
        for event, count in events:
            accountant.compose(event, count)
        best = min(best, float(accountant.get_epsilon(delta * float(weight))))
    return best


def _foreign(library: Any, event: GaussianEvent | SampledGaussianEvent) -> Any:
    match event:
        case GaussianEvent(noise_multiplier=z):
            return library.GaussianDpEvent(z)
        case SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z):
            return library.PoissonSampledDpEvent(float(rate), library.GaussianDpEvent(z))
        case _ as never:
            assert_never(never)
