"""Why a run costs what it costs: the chain from the event to epsilon, by every accountant here.

The ledger's rule is the only one that decides. Plain Renyi at the best order and privacy loss
distributions hold for this run alone, declared in advance, and say how much the rule's freedom to
open further runs costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from curator.accounting.cost import UNIT, Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.orders import ORDERS
from curator.accounting.rdp import epsilon_from_rdp
from curator.accounting.rule import BudgetRule, favourite_for
from curator.privacy.adjacency import Relation
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import MAX_STEPS


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedRun:
    """What is needed to price a run; `num_steps` is None for all that the budget affords."""

    mechanism: str
    sensitivity: str
    setup: PrivacyEvent
    step: PrivacyEvent
    num_steps: int | None
    budget: Budget

    @property
    def favourite(self) -> float:
        """The order that a budget should favour which is for such runs."""
        return favourite_for(self.budget, event_cost(self.setup), event_cost(self.step))


class CrossCheckMissing(RuntimeError):
    """The package of the second opinion is not installed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderLine:
    """One Renyi order: divergences, its share of delta and the epsilon that it would give."""

    order: float
    per_step: float
    total: float
    delta_share: float
    epsilon: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Every link of the chain, as plain values."""

    mechanism: str
    events: tuple[str, ...]
    sensitivity: str
    adjacency: str
    num_steps: int
    epsilon_cap: float
    delta: float
    favourite: float
    orders: tuple[OrderLine, ...]
    deciding_order: float | None
    ledger_epsilon: float
    fits: bool
    affordable_steps: int | None
    renyi_order: float | None
    renyi_epsilon: float
    pld_epsilon: float
    cross_checked: bool
    opacus_epsilon: float | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; infinities, which JSON lacks, as the text 'inf'."""
        plain: dict[str, Any] = _finite(asdict(self))
        return plain


def explain(run: DescribedRun, *, cross_check: bool, favourite: float | None = None) -> Explanation:
    """Price a run by every accountant.

    Args:
        run: The checked description.
        cross_check: Ask opacus too.
        favourite: The order that the budget favours, as for `BudgetRule.register`.

    Returns:
        The chain. `num_steps` is the largest affordable number where the run left it open, at
        least 1; `affordable_steps` is None where steps are free.

    Raises:
        CrossCheckMissing: If opacus is asked for and not installed.
    """
    rule = BudgetRule.register(run.budget, favourite)
    setup, step = event_cost(run.setup), event_cost(run.step)
    affordable = None
    if not step.is_zero:
        affordable = rule.affordable_steps(Cost.zero(), setup, step, MAX_STEPS)
    num_steps = max(1, affordable or 1) if run.num_steps is None else run.num_steps
    total = setup + step * num_steps
    lines = _orders(rule, setup if step.is_zero else step, total)
    finite = [line for line in lines if math.isfinite(line.epsilon)]
    plain = {a: _plain(a, unit, run.budget.delta) for a, unit in _pairs(total)}
    best = min(plain, key=lambda a: plain[a])
    paid = [(event, n) for event, n in ((run.setup, 1), (run.step, num_steps)) if event.parts]
    share = run.budget.delta / max(1, len(paid))
    return Explanation(
        mechanism=run.mechanism,
        events=tuple(f"{n:,} x {event.in_words()}" for event, n in paid),
        sensitivity=run.sensitivity,
        adjacency=f"{Relation.ADD_OR_REMOVE}-one-unit",
        num_steps=num_steps,
        epsilon_cap=run.budget.epsilon,
        delta=run.budget.delta,
        favourite=rule.favourite,
        orders=lines,
        deciding_order=min(finite, key=lambda line: line.epsilon).order if finite else None,
        ledger_epsilon=rule.spent_epsilon(total),
        fits=rule.admits(total),
        affordable_steps=affordable,
        renyi_order=best if math.isfinite(plain[best]) else None,
        renyi_epsilon=0.0 if total.is_zero else plain[best],
        pld_epsilon=sum(pld_epsilon(event, n, share) for event, n in paid),
        cross_checked=cross_check,
        opacus_epsilon=opacus_epsilon(paid, run.budget.delta) if cross_check else None,
    )


def opacus_epsilon(uses: Sequence[tuple[PrivacyEvent, int]], delta: float) -> float | None:
    """Return the epsilon of declared releases by opacus' Renyi accountant, at its best order.

    Returns:
        None where opacus does not know an event.

    Raises:
        CrossCheckMissing: If opacus is not installed.
    """
    try:
        from opacus.accountants.analysis import rdp as foreign  # not needed by a server
    except ImportError:
        msg = "--cross-check needs opacus, which is not installed: pip install opacus"
        raise CrossCheckMissing(msg) from None
    orders = [1 + i / 10 for i in range(1, 100)] + list(range(12, 65))
    total = [0.0] * len(orders)
    for part, n in ((part, n * part.repeats) for event, n in uses for part in event.parts):
        if part.elsewhere is None:
            return None
        rate, z = part.elsewhere.sampling_rate, part.elsewhere.noise_multiplier
        curve = foreign.compute_rdp(q=rate, noise_multiplier=z, steps=n, orders=orders)
        total = [a + float(b) for a, b in zip(total, curve, strict=True)]
    return max(0.0, float(foreign.get_privacy_spent(orders=orders, rdp=total, delta=delta)[0]))


def _orders(rule: BudgetRule, step: Cost, total: Cost) -> tuple[OrderLine, ...]:
    columns = zip(ORDERS, step.units, total.units, rule.offsets, rule.weights, strict=True)
    return tuple(
        OrderLine(
            order=order,
            per_step=_to_float(one),
            total=_to_float(unit),
            delta_share=float(weight) * rule.budget.delta,
            epsilon=_to_float(None if unit is None else max(0, unit + offset)),
        )
        for order, one, unit, offset, weight in columns
    )


def _to_float(units: int | None) -> float:
    return math.inf if units is None else units / UNIT


def _pairs(total: Cost) -> list[tuple[float, int | None]]:
    return list(zip(ORDERS, total.units, strict=True))


def _plain(alpha: float, unit: int | None, delta: float) -> float:
    return math.inf if unit is None else epsilon_from_rdp(alpha, unit / UNIT, delta)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return "inf" if value == math.inf else value


def explain_lines(why: Explanation) -> Iterator[str]:
    """Yield the chain of reasoning, one thought a line."""
    yield f"mechanism    {why.mechanism}"
    for event in why.events or ("nothing private is used",):
        yield f"event        {event}"
    yield f"sensitivity  {why.sensitivity}"
    yield f"neighbours   {why.adjacency}"
    yield f"steps        {why.num_steps:,}"
    yield (
        f"budget       epsilon {why.epsilon_cap:g}, delta {why.delta:g}, all of it unspent; it "
        f"favours order {why.favourite:g}"
    )
    yield ""
    yield "Renyi divergence, upper bounds, and the epsilon of each order with its share of delta:"
    yield f"{'order':>7} {'per step':>12} {'total':>12} {'share':>10} {'epsilon':>12}"
    for line in why.orders:
        mark = "  <- decides" if line.order == why.deciding_order else ""
        yield (
            f"{line.order:>7g} {line.per_step:>12.5g} {line.total:>12.5g} "
            f"{line.delta_share:>10.3g} {line.epsilon:>12.5g}{mark}"
        )
    yield ""
    verdict = "fits" if why.fits else "does not fit"
    yield f"by the ledger's rule           epsilon {why.ledger_epsilon:.4f}, {verdict}"
    affordable = "any number: they are free"
    if why.affordable_steps is not None:
        affordable = f"{why.affordable_steps:,}"
    yield f"steps that the budget affords  {affordable}"
    order = "no order" if why.renyi_order is None else f"order {why.renyi_order:g}"
    yield f"this run alone, plain Renyi    epsilon {why.renyi_epsilon:.4f}, {order}, all of delta"
    yield f"this run alone, loss distr.    epsilon {why.pld_epsilon:.4f}, if declared in advance"
    if why.opacus_epsilon is not None:
        yield f"this run alone, opacus         epsilon {why.opacus_epsilon:.4f}, plain Renyi"
    elif why.cross_checked:
        yield "this run alone, opacus         does not know this mechanism"
