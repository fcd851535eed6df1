"""What papers claim for a run, and what it costs, as lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks.papers.accounting.cgan import CganBounds, PublishedCgan, cgan_bounds
from benchmarks.papers.accounting.claims import Claim, claims_about
from benchmarks.papers.accounting.hidden_critic import (
    HiddenCritic,
    HiddenCriticBounds,
    hidden_critic_bounds,
)
from benchmarks.papers.accounting.looks import LooksBounds, StoredSums, looks_bounds
from benchmarks.papers.accounting.one_ledger import PartsBounds, ThreeParts, parts_bounds
from benchmarks.papers.accounting.settings import Setting
from benchmarks.papers.accounting.sliced_bounds import PaperBounds, paper_bounds
from benchmarks.papers.accounting.votes import PublishedVotes, afforded_votes, votes_lines
from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.events.sliced_gaussian import SampledSlicedGaussianEvent
from curator.accounting.explain import explain, explain_lines


def setting_lines(setting: Setting) -> Iterator[str]:
    """Yield the chain to epsilon of a run, then what is published of it."""
    why = explain(setting.run, cross_check=False)
    yield from explain_lines(why)
    yield from published_lines(setting, why.num_steps)


def published_lines(setting: Setting, num_steps: int) -> Iterator[str]:
    """Yield what papers claim for the releases of a run, and what those cost.

    Args:
        setting: The run.
        num_steps: How many steps it is declared with.
    """
    run = setting.run
    epsilon, delta = run.budget.epsilon, run.budget.delta
    if isinstance(run.step, SampledSlicedGaussianEvent):
        yield from _bounds_lines(paper_bounds(run.step, num_steps, epsilon, delta))
    yield from _told_lines(setting, num_steps)
    for event in (run.setup, run.step):
        for claim in claims_about(event):
            yield _claim_line(claim)


def _told_lines(setting: Setting, num_steps: int) -> Iterator[str]:
    """Yield what a setting costs of which its paper's accountant is told something else."""
    epsilon, delta = setting.run.budget.epsilon, setting.run.budget.delta
    match setting.told:
        case HiddenCritic() as critic:
            yield from _critic_lines(hidden_critic_bounds(critic, num_steps, delta))
        case PublishedVotes() as votes:
            yield from votes_lines(afforded_votes(votes, epsilon, delta))
        case PublishedCgan() as cgan:
            yield from _cgan_lines(cgan_bounds(cgan, num_steps, delta))
        case StoredSums() as sums:
            yield from _looks_lines(looks_bounds(sums, delta))
        case ThreeParts() as parts:
            yield from _parts_lines(parts_bounds(parts, epsilon, delta))
        case None:
            pass


def _claim_line(claim: Claim) -> str:
    renyi = renyi_epsilon(claim.event, claim.num_steps, claim.delta)
    losses = pld_epsilon(claim.event, claim.num_steps, claim.delta)
    return (
        f"published    {claim.what} ({claim.source}): {claim.num_steps:,} steps claimed at "
        f"({claim.epsilon:g}, {claim.delta:g}); here {renyi:.2f} by Renyi, {losses:.2f} by loss "
        "distributions"
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


def _looks_lines(bounds: LooksBounds) -> Iterator[str]:
    """Yield what stored sums cost that are noised anew at every look."""
    yield f"its accountant says            epsilon {bounds.reported:.2f}, for one look at each sum"
    yield (
        f"with as many looks at each     epsilon {bounds.renyi:.2f} by Renyi, "
        f"{bounds.losses:.2f} by loss distributions"
    )
    yield f"with looks at random           at most {_above(bounds.most)}, by Renyi"


def _parts_lines(bounds: PartsBounds) -> Iterator[str]:
    """Yield what three parts in one ledger cost."""
    yield (
        f"its accountant says            epsilon {bounds.reported:.3f}, with a noise of "
        f"{bounds.training_noise:.4g} in DP-SGD"
    )
    yield (
        f"with the class's own means     epsilon {bounds.renyi:.3f} by Renyi, "
        f"{bounds.losses:.3f} by loss distributions;"
    )
    yield "                               records kept for validation are in none of it"


def _below(epsilon: float) -> str:
    return f"{math.floor(epsilon * 100) / 100:.2f}" if epsilon < 100 else f"{math.floor(epsilon)}"


def _above(epsilon: float) -> str:
    return f"{math.ceil(epsilon * 100) / 100:.2f}" if epsilon < 100 else f"{math.ceil(epsilon)}"


def _noise(noise: float | None) -> str:
    return "none" if noise is None else f"{noise:.4g}"
