"""Batch normalisation with a gain and a bias per class: the only place where a label enters.

Shapes: N rows, K classes, F features, H height, W width.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn


@final
class ClassBatchNorm2d(nn.Module):
    """Normalises by the statistics of the current batch, then scales and shifts by class."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        """Start as plain normalisation.

        Args:
            num_features: F.
            num_classes: K.
        """
        super().__init__()
        self.norm = nn.BatchNorm2d(num_features, affine=False, track_running_stats=False)
        self.gain = nn.Parameter(torch.ones(num_classes, num_features))
        self.bias = nn.Parameter(torch.zeros(num_classes, num_features))

    def forward(self, features_NFHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return normalised features, shape as `features_NFHW`."""
        gain_NF11 = self.gain[labels_N][:, :, None, None]
        bias_NF11 = self.bias[labels_N][:, :, None, None]
        return torch.addcmul(bias_NF11, self.norm(features_NFHW), gain_NF11)
