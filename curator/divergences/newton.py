"""Newton's method on the semi-dual of entropic transport, with a fixed number of steps.

Sinkhorn's updates come close quickly and then crawl: on real images some problems need more than
ten thousand for what a few Newton steps do. Newton's method in turn must start near the optimum:
the temperature falls slowly enough that each optimum is near the one before. Every step tries the
same list of candidates and keeps the best one by arithmetic alone: no branch and no stop depends
on a number.

Shape legend: N points of the first cloud, M of the second, R ridges, K candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

_LOWEST_EXPONENT: Final = -80.0
_RIDGES: Final = (1e-14, 1e-10, 1e-7, 1e-4)  # of the mean weight; clouds may fall into islands
_LENGTHS: Final = (1.0, 0.5, 0.125, 0.03125)


def newton_steps(
    cost_NM: Tensor,
    potential_N: Tensor,
    log_weights: tuple[Tensor, Tensor],
    temperatures: Sequence[float],
) -> Tensor:
    """Improve the first potential once at each temperature; the second is its best answer.

    A candidate is a Newton step with some ridge and length, a Sinkhorn update, or no step; the
    one whose plan misses the first cloud's weights least is taken: at one temperature no step makes
    it worse.

    Args:
        cost_NM: Pairwise costs, in float64.
        potential_N: Dual potential to start from.
        log_weights: Logarithms of both clouds' weights; -inf is padding.
        temperatures: One > 0 for each step, in cost units.

    Returns:
        The first cloud's potential, (N,).

    References:
        [brauer:17], Newton's method for entropic transport; [cuturi:18], the semi-dual.
    """
    log_weights_N, log_weights_M = log_weights
    weights_N, weights_M = log_weights_N.exp(), log_weights_M.exp()
    size = len(weights_N)
    lengths = cost_NM.new_tensor(_LENGTHS)[:, None, None]
    ridges_RNN = (cost_NM.new_tensor(_RIDGES) / size)[:, None, None] * torch.eye(
        size, dtype=cost_NM.dtype, device=cost_NM.device
    )
    for reg in temperatures:
        offsets_NM = log_weights_N.unsqueeze(1) - cost_NM / reg
        scaled_N = potential_N / reg
        plan_NM = _column_plans(offsets_NM, scaled_N.unsqueeze(0))[0]
        sums_N = plan_NM @ weights_M
        missing_N = weights_N - sums_N
        hessian_NN = torch.diag(sums_N) - (plan_NM * weights_M) @ plan_NM.T
        lifted_RNN = hessian_NN + 1 / size**2 + ridges_RNN  # constants move nothing
        newton_RN, _ = torch.linalg.solve_ex(lifted_RNN, missing_N.expand(len(_RIDGES), size))
        sinkhorn_1N = (log_weights_N - sums_N.log()).unsqueeze(0)
        moves = ((lengths * newton_RN).flatten(0, 1), sinkhorn_1N, torch.zeros_like(sinkhorn_1N))
        candidates_KN = scaled_N + torch.cat(moves).nan_to_num(0.0, 0.0, 0.0)
        reached_KN = _column_plans(offsets_NM, candidates_KN) @ weights_M
        potential_N = candidates_KN[(reached_KN - weights_N).abs().sum(1).argmin()] * reg
    return potential_N


def _column_plans(offsets_NM: Tensor, scaled_KN: Tensor) -> Tensor:
    """Return plans (K, N, M) whose columns sum to one, no entry's exponent below exp(-80)."""
    exponents_KNM = offsets_NM + scaled_KN.unsqueeze(2)
    exponents_KNM = exponents_KNM - exponents_KNM.amax(1, keepdim=True)
    powers_KNM = exponents_KNM.clamp_(min=_LOWEST_EXPONENT).exp_()
    return powers_KNM / powers_KNM.sum(1, keepdim=True)
