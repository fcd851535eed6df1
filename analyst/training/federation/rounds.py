"""How the answers of several curators become one, and whom a round asks; it knows no curator.

A round is one step of training. With `round-robin` it uses a step at one curator, otherwise at
every curator that has one left. All functions depend on what the ledgers say alone, so a resumed
run goes on with the schedule that it had.

Shapes: K curators, in their public order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


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
