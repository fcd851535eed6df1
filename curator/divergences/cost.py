"""The ground cost of labelled images: |u - v|_2^2 + m |u - v|_1 on [image, alpha onehot(label)].

The one-hot vectors are never built: two different labels cost a constant, equal labels nothing.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

if TYPE_CHECKING:
    from torch import Tensor

_VECTOR_CODE = {"AVX2", "AVX512"}  # as torch names them; what has other names is not known
_STEEP = 1e38  # times a normal float32 it is far beyond 1; times a difference of pixels, finite


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WeightedPoints:
    """A labelled point cloud; a row of log-weight -inf is padding and carries no mass."""

    images_ND: Tensor
    labels_N: Tensor
    log_weights_N: Tensor


def uniform_points(images_ND: Tensor, labels_N: Tensor) -> WeightedPoints:
    """Return a cloud whose rows share the mass equally.

    Args:
        images_ND: One row per point.
        labels_N: One class index per point.

    Returns:
        Points of total mass one, in the dtype of the images.
    """
    log_weight = -math.log(images_ND.shape[0])
    return WeightedPoints(
        images_ND=images_ND,
        labels_N=labels_N,
        log_weights_N=images_ND.new_full((images_ND.shape[0],), log_weight),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledCost:
    """|u - v|_2^2 + l1_weight |u - v|_1 on an image joined with a scaled one-hot label.

    `l1_weight` is m >= 0; `label_scale` is alpha >= 0, the length of a one-hot vector.

    References:
        [cao:21], section 4 (mixed cost, label-augmented points).
    """

    l1_weight: float
    label_scale: float

    @property
    def label_gap(self) -> float:
        """The constant that two points of different labels pay: 2 alpha^2 + 2 m alpha."""
        return 2 * self.label_scale**2 + 2 * self.l1_weight * self.label_scale

    def matrix(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return all pairwise costs.

        Returns:
            Costs (N, M), at least zero, in the dtype of the images.
        """
        u, v = first.images_ND, second.images_ND
        squares = u.square().sum(1).unsqueeze(1) + v.square().sum(1)
        cost_NM = torch.addmm(squares, u, v.T, alpha=-2).clamp_min(0)
        if self.l1_weight > 0:
            cost_NM = cost_NM.add(torch.cdist(u, v, p=1.0), alpha=self.l1_weight)
        differs = first.labels_N.unsqueeze(1) != second.labels_N
        return cost_NM.add(differs.to(cost_NM.dtype), alpha=self.label_gap)

    def gradient(self, plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
        """Differentiate sum_ij plan_ij cost(u_i, v_j) in the images u, the plan held fixed.

        Where two pixels are equal the L1 term contributes zero, its symmetric subgradient.

        Returns:
            Rows (N, D).
        """
        rows_ND = torch.addmm(
            plan_NM.sum(1, keepdim=True) * first_ND, plan_NM, second_MD, beta=2, alpha=-2
        )
        if self.l1_weight > 0:
            rows_ND = rows_ND.add(sign_sums(plan_NM, first_ND, second_MD), alpha=self.l1_weight)
        return rows_ND


def sign_sums(plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
    """Return sum_j plan_ij sign(u_i - v_j) without an (N, M, D) array.

    This is the backward kernel of `torch.cdist` at p = 1, called without its forward pass. Without
    vector instructions it branches on each difference, and its time would tell whether the second
    cloud is padding; so it is called only where it is known not to.

    Returns:
        Rows (N, D); sign(0) is 0.
    """
    is_vector_code = torch.backends.cpu.get_cpu_capability() in _VECTOR_CODE
    if first_ND.device.type == "cpu" and not is_vector_code:
        return branchless_sign_sums(plan_NM, first_ND, second_MD)
    plan_NM = plan_NM.contiguous()
    kernel = torch.ops.aten._cdist_backward  # noqa: SLF001 - a unit test pins what it returns
    signs = kernel(plan_NM, first_ND.contiguous(), second_MD.contiguous(), 1.0, plan_NM)
    return cast("Tensor", signs)


def branchless_sign_sums(plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
    """Return what `sign_sums` does, a row at a time, by a product and a bound."""
    rows = zip(plan_NM.unsqueeze(1), first_ND.unsqueeze(1), strict=True)
    return torch.cat([plan_1M @ _signs(row_1D - second_MD) for plan_1M, row_1D in rows])


def _signs(differences: Tensor) -> Tensor:
    """Return -1, 0 and 1; what is nearer to zero than normal numbers is zero."""
    return differences.mul_(_STEEP).clamp_(-1, 1)
