"""An explanation as lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from curator.accounting.explain import Explanation


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
