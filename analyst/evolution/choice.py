"""Which candidates go on: the published choice, by noised votes and nothing else.

Shapes: N candidates, K classes.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def shares(votes_N: Tensor, labels_N: Tensor, least: float) -> Tensor:
    """Return how much of its class each candidate stands for.

    Args:
        votes_N: Noised counts.
        labels_N: Classes.
        least: Votes below it count as none.

    Returns:
        float64 (N), not negative, of sum 1 in every class that has candidates; where a class has no
        votes left, its positive ones count, and else all candidates alike.

    References:
        [lin:24], algorithm 1.
    """
    found_N = torch.zeros(len(votes_N), dtype=torch.float64)
    for label in range(int(labels_N.max()) + 1):
        of_class = labels_N == label
        if not bool(of_class.any()):
            continue
        votes = votes_N[of_class].double()
        kept = torch.where(votes >= least, votes, 0.0)
        for other in (votes.clamp_min(0.0), torch.ones_like(votes)):
            kept = kept if float(kept.sum()) > 0 else other
        found_N[of_class] = kept / kept.sum()
    return found_N


def drawn(shares_n: Tensor, count: int, randomness: Generator) -> Tensor:
    """Return candidates of one class in proportion to their shares, with the least chance.

    One random number is drawn: each candidate comes as often as `count` times its share, rounded up
    or down.

    Args:
        shares_n: Of sum 1.
        count: How many, of which some may be the same.
        randomness: To draw from.

    Returns:
        int64 (count), ascending.
    """
    start = torch.rand(1, generator=randomness, dtype=torch.float64)
    points = (torch.arange(count, dtype=torch.float64) + start) / count
    ends_n = shares_n.cumsum(dim=0)
    return torch.searchsorted(ends_n / ends_n[-1], points, right=True).clamp_(max=len(ends_n) - 1)
