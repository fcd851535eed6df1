"""Epsilon of one declared run alone by privacy loss distributions: information, never a charge.

It is tighter than the ledger's rule because every parameter, the number of steps included, is
fixed in advance; it is no guarantee for a run that was stopped early by choice, nor for several.
"""

from __future__ import annotations

import functools

from curator.accounting.cost import UNIT, event_cost
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp
from curator.privacy.event_numbers import check_num_steps


@functools.lru_cache(maxsize=1024)
def pld_epsilon(event: PrivacyEvent, num_steps: int, delta: float) -> float:
    """Return an upper bound of the epsilon of `num_steps` releases that were declared in advance.

    Every loss is rounded pessimistically and both directions of add-or-remove-one are composed;
    the larger counts. Where the distribution would be too large to compute, the bound from the
    Renyi divergence is returned, which is higher and also holds. Of the sliced Gaussian the average
    over the projections' lengths is a quadrature, accurate but not proved to err upward.

    Returns:
        A finite epsilon, at least 0.

    Raises:
        ValueError: If `num_steps` or `delta` is out of range.

    References:
        [doroshenko:22]; [zhu:22], Theorem 11.
    """
    check_num_steps(num_steps)
    if not 0 < delta < 1:
        msg = "delta must be in (0, 1)"
        raise ValueError(msg)
    if not event.parts:
        return 0.0
    ceiling = renyi_epsilon(event, num_steps, delta)
    composed = event.composed_epsilon(num_steps, delta, ceiling)
    return ceiling if composed is None else min(ceiling, composed)


def renyi_epsilon(event: PrivacyEvent, num_steps: int, delta: float) -> float:
    """Return the epsilon of releases declared in advance from the charged costs, best order.

    The order may be chosen with the full delta only because nothing is chosen adaptively.
    """
    total = event_cost(event) * num_steps
    if total.is_zero:
        return 0.0
    return min(
        epsilon_from_rdp(alpha, unit / UNIT, delta)
        for alpha, unit in zip(ORDERS, total.units, strict=True)
        if unit is not None
    )
