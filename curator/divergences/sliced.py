"""Squared sliced Wasserstein distance between equally many projected rows, and its gradient.

In one dimension the optimal coupling pairs the sorted values, so no iteration is needed and equal
clouds are at distance 0 with gradient 0. Only released and public values ever come here: sorting
may depend on them freely.

Shape legend: M rows, K directions, D coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sliced_distance(rows_MK: Tensor, others_MK: Tensor) -> Tensor:
    """Return the mean over columns of the mean squared difference of sorted values.

    Returns:
        A scalar, 0 for equal clouds.

    References:
        [rakotomamonjy:21], with q = 2.
    """
    return (rows_MK.sort(dim=0).values - others_MK.sort(dim=0).values).square().mean()


def sliced_gradient(rows_MK: Tensor, others_MK: Tensor) -> Tensor:
    """Return the gradient of `sliced_distance` with respect to the first cloud's projections.

    Returns:
        Values [M, K], finite for every finite input, ties and equal clouds too.
    """
    order_MK = rows_MK.argsort(dim=0, stable=True)
    partners_MK = torch.empty_like(rows_MK).scatter_(0, order_MK, others_MK.sort(dim=0).values)
    return (rows_MK - partners_MK) * (2.0 / rows_MK.numel())


def clip_rows(rows_MD: Tensor, clip_norm: float) -> Tensor:
    """Return rows scaled to norm at most `clip_norm`; shorter ones are unchanged."""
    norms_M = torch.linalg.vector_norm(rows_MD, dim=1, keepdim=True)
    return rows_MD * torch.where(norms_M > clip_norm, clip_norm / norms_M, 1.0)


def clip_rows_gradient(rows_MD: Tensor, clip_norm: float, gradient_MD: Tensor) -> Tensor:
    """Return the gradient with respect to rows from the one with respect to clipped rows.

    Args:
        rows_MD: Rows before they were clipped.
        clip_norm: Bound on their norm.
        gradient_MD: Gradient with respect to `clip_rows(rows_MD, clip_norm)`.

    Returns:
        `gradient_MD` for short rows; for long ones it is scaled and loses its part along the row.
    """
    norms_M = torch.linalg.vector_norm(rows_MD, dim=1, keepdim=True)
    units_MD = rows_MD / norms_M.clamp_min(clip_norm)  # at length 1 where it matters
    along_M = (units_MD * gradient_MD).sum(dim=1, keepdim=True)
    clipped_MD = (gradient_MD - along_M * units_MD) * (clip_norm / norms_M.clamp_min(clip_norm))
    return torch.where(norms_M > clip_norm, clipped_MD, gradient_MD)
