"""Normalisations that torch does not have: by class, and spectral without state.

Batch normalisation with a gain and a bias per class is the only place where a label enters.

torch's own `spectral_norm` keeps a running estimate that changes in every training forward pass, so
saving a grid of samples would alter what is trained, and a checkpoint would need more than the
parameters. Here power iteration starts afresh from the weights: the norm is a function of them
alone. The gradient is the same, that of u^T W v with u and v held fixed.

Shapes: N rows, K classes, F features, H height, W width; O outputs, I inputs times kernel.
"""

from __future__ import annotations

from typing import TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils import parametrize

LayerT = TypeVar("LayerT", nn.Linear, nn.Conv2d)

NUM_ITERATIONS = 10


@final
class ClassBatchNorm2d(nn.Module):
    """Normalises by the statistics of the current batch, then scales and shifts by class."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        """Start as plain normalisation."""
        super().__init__()
        self.norm = nn.BatchNorm2d(num_features, affine=False, track_running_stats=False)
        self.gain = nn.Parameter(torch.ones(num_classes, num_features))
        self.bias = nn.Parameter(torch.zeros(num_classes, num_features))

    def forward(self, features_NFHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return normalised features, shape as `features_NFHW`."""
        gain_NF11 = self.gain[labels_N][:, :, None, None]
        bias_NF11 = self.bias[labels_N][:, :, None, None]
        return torch.addcmul(bias_NF11, self.norm(features_NFHW), gain_NF11)


@final
class SpectralNorm(nn.Module):
    """Divides a weight by an estimate of its largest singular value, from below."""

    def forward(self, weight: Tensor) -> Tensor:
        """Return the normalised weight.

        References:
            [miyato:18], Algorithm 1.
        """
        matrix_OI = weight.flatten(1)
        with torch.no_grad():
            u_O = normalize(torch.linalg.vector_norm(matrix_OI, dim=1), dim=0)
            for _ in range(NUM_ITERATIONS):
                v_I = normalize(matrix_OI.T @ u_O, dim=0)
                u_O = normalize(matrix_OI @ v_I, dim=0)
            v_I = normalize(matrix_OI.T @ u_O, dim=0)
        return weight / (u_O @ (matrix_OI @ v_I))


def spectral_norm(layer: LayerT) -> LayerT:
    """Give `layer` a spectrally normalised weight, in place."""
    parametrize.register_parametrization(layer, "weight", SpectralNorm())
    return layer
