"""Class-wise MMD^2 between given mean embeddings and generated images, and its gradient.

Per class: |mean_k|^2 - 2 mean_k . mu_k + the unbiased estimate of |E phi(generated)|^2, averaged
over the K classes of the image space. A class without rows contributes nothing.

Shape legend: N samples, K classes, 2F features, D pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from curator.divergences.device import compute_device
from curator.divergences.feature_maps import FeatureMap

if TYPE_CHECKING:
    from torch import Tensor


def class_gradients(
    features: FeatureMap, images_ND: Tensor, labels_N: Tensor, class_means_K2F: Tensor
) -> Tensor:
    """Return the gradient of the mean over classes of the unbiased MMD^2.

    With g rows of a class whose features add up to S, the derivative with respect to one row's
    feature is 2/(K g) (S/(g - 1) - mean); the part of S that is the row's own feature drops out,
    because |phi| is constant. A lone row has no pair, so only the cross term is left.

    Args:
        features: The feature map.
        images_ND: Generated pixels in [-1, 1].
        labels_N: Class indices below K.
        class_means_K2F: Mean embedding that each class should reach.

    Returns:
        Rows (N, D) in the dtype of the images.

    References:
        [gretton:12], equation 4 (unbiased estimate); [harder:21], equation 6.
    """
    device = compute_device()
    labels_N = labels_N.to(device)
    with torch.enable_grad():
        moving_ND = images_ND.detach().to(device).requires_grad_()
        tracked_N2F = features.rows(moving_ND)
    rows_N2F = tracked_N2F.detach()
    means_K2F = class_means_K2F.to(rows_N2F)
    sums_K2F = torch.zeros_like(means_K2F).index_add_(0, labels_N, rows_N2F)
    sizes_K = torch.bincount(labels_N, minlength=means_K2F.shape[0]).to(rows_N2F.dtype)
    paired_K = (sizes_K > 1).to(rows_N2F.dtype) / (sizes_K - 1).clamp_min(1)
    by_feature_K2F = sums_K2F * paired_K.unsqueeze(1) - means_K2F
    scales_K = 2 / (means_K2F.shape[0] * sizes_K.clamp_min(1))
    weights_K2F = by_feature_K2F * scales_K.unsqueeze(1)
    (gradient_ND,) = torch.autograd.grad(tracked_N2F, moving_ND, weights_K2F[labels_N])
    return gradient_ND
