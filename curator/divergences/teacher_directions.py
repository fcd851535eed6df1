"""Directions of teachers on public projections: which bin, and what the bins of a majority mean.

Shape legend: k teachers, B images, D pixels, P projections, Q = B P questions, O bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-20


def projected_directions(gradients_kBD: Tensor, projection_DP: Tensor) -> Tensor:
    """Return each teacher's direction for each image, of length 1, on the projections.

    Args:
        gradients_kBD: Slopes in the images.
        projection_DP: Public normal numbers, so that a coordinate is about standard normal.

    Returns:
        (k, B, P); not finite where a slope is not.
    """
    lengths_kB1 = (gradients_kBD.square().sum(dim=2, keepdim=True) + _TINY).sqrt()
    return (gradients_kBD / lengths_kB1) @ projection_DP


def bins_of(values: Tensor, reach: float, num_bins: int) -> Tensor:
    """Return the bin of each value in equal parts of [-reach, reach]; -1 if it is not finite.

    Args:
        values: Any; those outside fall into the first or the last bin.
        reach: C > 0.
        num_bins: O.

    Returns:
        int64, shape as `values`.
    """
    places = ((values / reach + 1) * (num_bins / 2)).floor().clamp(0, num_bins - 1)
    return torch.where(values.isfinite(), places.nan_to_num(), -1).to(torch.int64)


def middles_of_winners(counts_QO: Tensor, reach: float) -> Tensor:
    """Return the middle of the bin with the largest count, for each question.

    Args:
        counts_QO: Released counts.
        reach: C > 0; bins are equal parts of [-C, C].

    References:
        [long:21], algorithm 2, without its test of confidence.
    """
    num_bins = counts_QO.shape[1]
    return reach * ((2 * counts_QO.argmax(dim=1) + 1) / num_bins - 1)


def back_projected(values_BP: Tensor, projection_DP: Tensor) -> Tensor:
    """Return rows (B, D) whose expectation over projections is the direction itself.

    Args:
        values_BP: What was agreed on, per projection.
        projection_DP: The same as before.
    """
    return values_BP @ projection_DP.T / projection_DP.shape[1]
