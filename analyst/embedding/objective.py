"""The class-wise MMD^2 to a released embedding, and its gradient.

Shapes: N images, K classes, R features.
"""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from analyst.embedding.file import SavedEmbedding
from analyst.embedding.maps import feature_map

_MIN_COUNT_IN_STDS = 2.0


@final
class EmbeddingObjective:
    """Answers gradients from a saved embedding as the curator would."""

    def __init__(self, embedding: SavedEmbedding) -> None:
        """Draw the map's frequencies and divide sums by counts."""
        self._map = feature_map(embedding.parameters, embedding.shape)
        self._means_KR = class_means(embedding).to(torch.float32)

    def gradient(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return the gradient of the mean over classes of the unbiased MMD^2.

        Args:
            images_NCHW: Pixels in [-1, 1]; codes [N, E] where the release is of codes.
            labels_N: Class numbers.

        Returns:
            As large as what was given; a class without images contributes nothing.
        """
        if self._means_KR.device != images_NCHW.device:
            self._means_KR = self._means_KR.to(images_NCHW.device)
        means_KR = self._means_KR.to(images_NCHW.dtype)
        with torch.enable_grad():
            moving = images_NCHW.detach().requires_grad_()
            rows_NR: Tensor = self._map(moving)
        values_NR = rows_NR.detach()
        sums_KR = torch.zeros_like(means_KR).index_add_(0, labels_N, values_NR)
        sizes_K1 = torch.bincount(labels_N, minlength=len(means_KR)).to(values_NR).unsqueeze(1)
        others_KR = torch.where(sizes_K1 > 1, sums_KR / (sizes_K1 - 1).clamp_min(1), 0.0)
        weights_KR = (others_KR - means_KR) * (2 / (len(means_KR) * sizes_K1.clamp_min(1)))
        (gradient,) = torch.autograd.grad(rows_NR, moving, weights_KR[labels_N])
        return gradient


def class_means(embedding: SavedEmbedding) -> Tensor:
    """Return noisy mean embeddings [K, R]; a noisy count is not let below twice its noise.

    Returns:
        float64 rows.
    """
    scale: float = embedding.parameters["count_scale"]
    shrink = 1 / math.sqrt(1 + scale**2)
    counts_K1 = embedding.sums_KR[:, -1:] / (scale * shrink)
    noise_std = embedding.parameters["noise_multiplier"] / (scale * shrink)
    least = max(1.0, _MIN_COUNT_IN_STDS * noise_std)
    return embedding.sums_KR[:, :-1] / (shrink * counts_K1.clamp_min(least))
