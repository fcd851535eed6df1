"""How the answers of several curators become one, and whom a round asks; it knows no curator.

A round is one step of training. With `round-robin` it uses a step at one curator, otherwise at
every curator that has one left. All functions depend on what the ledgers say alone, so a resumed
run goes on with the schedule that it had.

Shapes: K curators, in their public order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analyst.errors import FederationError
from analyst.facts import ImageFacts, PlanTotals


class Combine(StrEnum):
    """How several answers become one; everything that decides is public."""

    MEAN = "mean"  # each round asks all; their gradients are averaged by public weights
    ROUND_ROBIN = "round-robin"  # each round asks one, in turn
    SUM = "sum"  # each releases one embedding; the sums of all are added by public weights


class OnLoss(StrEnum):
    """What a curator that is lost, or has used its steps before the others, means for the rest."""

    STOP = "stop"  # training ends with a checkpoint, and can be resumed
    CONTINUE = "continue"  # training goes on with the others, and says so


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What an analyst chose for a federation."""

    combine: Combine
    on_loss: OnLoss
    patience_s: float  # a curator that does not answer for so long is lost


def rounds_left(left_K: Sequence[int], rule: Rule, *, next_round: int) -> int:
    """Return how many rounds can follow.

    Args:
        left_K: Declared steps that each curator has left; 0 for one that is lost.
        rule: With `stop`, the first curator that has none when it is its turn ends all.
        next_round: From 1.

    Returns:
        0 if there is none.
    """
    if rule.combine is not Combine.ROUND_ROBIN:
        return min(left_K) if rule.on_loss is OnLoss.STOP else max(left_K)
    if rule.on_loss is OnLoss.CONTINUE:
        return sum(left_K)
    count = len(left_K)
    return min((k - next_round + 1) % count + left * count for k, left in enumerate(left_K))


def asked(left_K: Sequence[int], rule: Rule, *, this_round: int) -> list[int]:
    """Return which curators a round asks.

    Args:
        left_K: Declared steps that each curator has left; 0 for one that is lost.
        rule: How answers are combined.
        this_round: From 1.

    Returns:
        Their positions, ascending; none if no curator has a step left.
    """
    able = [k for k, left in enumerate(left_K) if left > 0]
    if rule.combine is not Combine.ROUND_ROBIN or not able:
        return able
    return [able[(this_round - 1) % len(able)]]


def shares(num_rounds: int, affordable_K: Sequence[int], rule: Rule) -> list[int]:
    """Return the steps to declare at each curator.

    Args:
        num_rounds: Of training.
        affordable_K: Steps that each budget affords.
        rule: With `stop` every curator gets its whole part, whether it affords it or not; with
            `continue` one that affords less gets less.

    Returns:
        Steps up to `num_rounds` each; with `round-robin` they add up to it where budgets allow.
    """
    stop = rule.on_loss is OnLoss.STOP
    if rule.combine is not Combine.ROUND_ROBIN:
        return [num_rounds if stop else min(num_rounds, most) for most in affordable_K]
    most_K = [num_rounds] * len(affordable_K) if stop else list(affordable_K)
    share_K = [0] * len(most_K)
    open_rounds = num_rounds
    while open_rounds and any(s < m for s, m in zip(share_K, most_K, strict=True)):
        takers = [k for k, most in enumerate(most_K) if share_K[k] < most]
        part = max(1, open_rounds // len(takers))
        for k in takers:
            given = min(part, most_K[k] - share_K[k], open_rounds)
            share_K[k] += given
            open_rounds -= given
    return share_K


def joined_facts(facts: Mapping[str, ImageFacts]) -> ImageFacts:
    """Return the facts of all data sets together.

    Sizes are added; epsilon and delta are the largest of any curator and promise nothing: every
    curator keeps its own guarantee for its own people.

    Args:
        facts: By the name of the curator, in the public order.

    Returns:
        What all agree on; data sets with different names are joined by '+'.

    Raises:
        FederationError: If image shapes or classes differ.
    """
    (first_name, first), *others = facts.items()
    for name, other in others:
        if _what(other) != _what(first):
            message = (
                f"the curators' images differ: {_say(first)} at {first_name}, "
                f"{_say(other)} at {name}"
            )
            raise FederationError(
                message, "Name data sets of one shape, with the same classes in one order."
            )
    every = list(facts.values())
    return ImageFacts(
        name="+".join(dict.fromkeys(one.name for one in every)),
        channels=first.channels,
        height=first.height,
        width=first.width,
        classes=first.classes,
        nominal_size=sum(one.nominal_size for one in every),
        capacity=max(one.capacity for one in every),
        epsilon=max(one.epsilon for one in every),
        delta=max(one.delta for one in every),
    )


def joined_plan(
    plans: Sequence[PlanTotals], *, num_rounds: int, affordable_rounds: int
) -> PlanTotals:
    """Return the plan of a federation: epsilons are the largest, what remains is the least."""
    return PlanTotals(
        num_steps=num_rounds,
        affordable_steps=affordable_rounds,
        epsilon_after=max(plan.epsilon_after for plan in plans),
        epsilon_alone=max(plan.epsilon_alone for plan in plans),
        remaining=min(plan.remaining for plan in plans),
        fits=num_rounds <= affordable_rounds,
    )


def _what(facts: ImageFacts) -> tuple[object, ...]:
    return facts.channels, facts.height, facts.width, tuple(facts.classes)


def _say(facts: ImageFacts) -> str:
    shape = f"{facts.channels}x{facts.height}x{facts.width}"
    return f"'{facts.name}' of {shape} with classes {', '.join(facts.classes)}"
