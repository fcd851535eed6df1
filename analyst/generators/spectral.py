"""Spectral normalisation without state, as a torch parametrization.

torch's own `spectral_norm` keeps a running estimate that changes in every training forward pass, so
saving a grid of samples would alter what is trained, and a checkpoint would need more than the
parameters. Here power iteration starts afresh from the weights: the norm is a function of them
alone. The gradient is the same, that of u^T W v with u and v held fixed.

Shapes: O outputs, I inputs times kernel.
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
