"""An explanation as lines of text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from curator.accounting.explain import Explanation
from curator.accounting.hidden_critic import HiddenCriticBounds
from curator.accounting.published_cgan import CganBounds
from curator.accounting.published_votes import votes_lines
from curator.accounting.sliced_bounds import PaperBounds


def explain_lines(why: Explanation) -> Iterator[str]:
    """Yield the chain of reasoning, one thought a line."""
    yield f"mechanism    {why.mechanism}"
    for event in why.events or ("nothing private is used",):
        yield f"event        {event}"
    yield f"sensitivity  {why.sensitivity}"
    yield f"neighbours   {why.adjacency}"
    yield f"steps        {why.num_steps:,}"
    yield f"budget       epsilon {why.epsilon_cap:g}, delta {why.delta:g}, all of it unspent"
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
    if why.sliced_bounds is not None:
        yield from _bounds_lines(why.sliced_bounds)
    yield from _published_lines(why)


def _published_lines(why: Explanation) -> Iterator[str]:
    """Yield what papers claim for the same releases, and what they cost."""
    if why.hidden_critic is not None:
        yield from _critic_lines(why.hidden_critic)
    if why.published_votes is not None:
        yield from votes_lines(why.published_votes)
    if why.published_cgan is not None:
        yield from _cgan_lines(why.published_cgan)
    for claim in why.claims:
        yield (
            f"published    {claim.what} ({claim.source}): {claim.num_steps:,} steps claimed at "
            f"({claim.claimed_epsilon:g}, {claim.delta:g}); here {claim.renyi_epsilon:.2f} by "
            f"Renyi, {claim.pld_epsilon:.2f} by loss distributions"
        )


def _bounds_lines(bounds: PaperBounds) -> Iterator[str]:
    """Yield what the paper's bounds of a random projection would charge for the same run."""
    yield (
        f"by the paper's Bernstein bound epsilon {bounds.bernstein_epsilon:.4f}, "
        "for the projections' length; priced as here"
    )
    yield (
        f"by its central limit           epsilon {bounds.central_limit_epsilon:.4f}, "
        "not rigorous: no bound at all"
    )
    exact = _noise(bounds.sufficient_noise)
    yield (
        f"noise for epsilon {bounds.target_epsilon:<12g} {exact} exactly, "
        f"{_noise(bounds.bernstein_noise)} by Bernstein, {_noise(bounds.central_limit_noise)} by "
        "the central limit (not rigorous)"
    )
    yield (
        "                               as std over what a row may move before it is projected; "
        "plain Renyi, this run alone."
    )
    yield (
        "                               Rows of norm 1/2 under add or remove one need half of it, "
        "where two rows differ by at most 1."
    )


def _critic_lines(bounds: HiddenCriticBounds) -> Iterator[str]:
    """Yield what the run of a hidden critic costs; a step draws one critic, not one per image."""
    if bounds.published is not None:
        yield f"published    {bounds.published}"
    if bounds.is_drawn_in_secret:
        yield (
            f"true epsilon                   at least {_below(bounds.least)}, at most "
            f"{_above(bounds.most)}; at most {_above(bounds.most_decoupled)} if no"
        )
        yield "                               critic's state depended on which ones were drawn"
    else:
        yield f"true epsilon                   {_above(bounds.most)}: who draws knows the draws"
    yield f"in public rounds               {_above(bounds.in_public_rounds)}"


def _cgan_lines(bounds: CganBounds) -> Iterator[str]:
    """Yield what the released DP-CGAN costs, correction by correction."""
    if bounds.claimed is not None:
        yield (
            "published    DP-CGAN on MNIST (Torkzadehmahani et al., CVPR Workshops 2019): claimed "
            f"{bounds.claimed:g}"
        )
    yield f"its accountant says            epsilon {bounds.reported:.2f}, told of C times the noise"
    yield f"with the noise that there is   epsilon {bounds.one_tensor:.2f}, as one clipped vector"
    yield (
        f"true: tensors clipped apart    epsilon {bounds.renyi:.1f} by Renyi, "
        f"{bounds.losses:.1f} by loss distributions;"
    )
    yield "                               and no epsilon covers that labels of records condition"
    yield "                               generated rows without noise"


def _below(epsilon: float) -> str:
    return f"{math.floor(epsilon * 100) / 100:.2f}" if epsilon < 100 else f"{math.floor(epsilon)}"


def _above(epsilon: float) -> str:
    return f"{math.ceil(epsilon * 100) / 100:.2f}" if epsilon < 100 else f"{math.ceil(epsilon)}"


def _noise(noise: float | None) -> str:
    return "none" if noise is None else f"{noise:.4g}"
