"""The semi-debiased Sinkhorn loss 2 W(X[0:n], Y) - W(X[0:n], X[n':n'+n]), in two halves.

`private_half` is the only function here that meets private points; `public_half` takes none.

Shape legend: N = n + n' samples, M capacity (padded private rows), D pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from curator.divergences.cost import WeightedPoints, uniform_points
from curator.divergences.sinkhorn import TransportSolver

if TYPE_CHECKING:
    from torch import Tensor


def masked_points(images_MD: Tensor, labels_M: Tensor, mask_M: Tensor) -> WeightedPoints:
    """Return a cloud that shares the mass among the unmasked rows.

    When no row is left the padding shares it, so that everything stays finite.

    Args:
        images_MD: Private rows padded to the capacity.
        labels_M: Their class indices.
        mask_M: False marks padding.
    """
    kept_M = mask_M.to(images_MD.dtype)
    kept_M = torch.where(kept_M.sum() > 0, kept_M, torch.ones_like(kept_M))
    log_weights_M = kept_M.log() - kept_M.sum().log()
    return WeightedPoints(images_ND=images_MD, labels_N=labels_M, log_weights_N=log_weights_M)


def private_half(
    solver: TransportSolver, samples: WeightedPoints, records: WeightedPoints, mask_M: Tensor
) -> Tensor:
    """Return the gradient of 2 W(X[0:n], Y) with respect to X[0:n].

    Args:
        solver: Fixed-length transport solver.
        samples: The n rows that meet private data.
        records: Private points, padded.
        mask_M: False marks padding.

    Returns:
        Rows (n, D); zero when no record was sampled, by a factor and not by a branch.
    """
    factor = 2 * (mask_M.sum() > 0).to(samples.images_ND.dtype)
    return solver.first_gradient(samples, records) * factor


def public_half(
    solver: TransportSolver, images_ND: Tensor, labels_N: Tensor, num_samples: int
) -> Tensor:
    """Return the gradient of -W(X[0:n], X[n':n'+n]) with respect to all n + n' rows.

    Args:
        solver: Fixed-length transport solver.
        images_ND: All n + n' generated images.
        labels_N: Their class indices.
        num_samples: n; the other n' = N - n rows serve the self term only.

    Returns:
        Rows (N, D); a row on both sides of the self term gets both contributions.
    """
    start = images_ND.shape[0] - num_samples
    if start == 0:
        return solver.self_gradient(uniform_points(images_ND, labels_N)).neg_()
    first = uniform_points(images_ND[:num_samples], labels_N[:num_samples])
    second = uniform_points(images_ND[start:], labels_N[start:])
    first_rows, second_rows = solver.both_gradients(first, second)
    gradient_ND = torch.zeros_like(images_ND)
    gradient_ND[:num_samples] -= first_rows
    gradient_ND[start:] -= second_rows
    return gradient_ND
