"""A small conditional generator for tiny images: seconds on a CPU, rows independent of each other.

Shapes: N rows, Z latent dimensions, C channels, H height, W width,
P = C * H * W.
"""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn

from analyst.generators.configs import MlpConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape


@final
class MlpGenerator(ConditionalGenerator):
    """Latent and label embedding through hidden layers to tanh pixels."""

    batch_dependent = False

    def __init__(self, config: MlpConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`."""
        super().__init__(config, shape)
        self._image = (shape.channels, shape.height, shape.width)
        self.embedding = nn.Embedding(shape.num_classes, config.embedding_dim)
        layers: list[nn.Module] = []
        inputs = config.latent_dim + config.embedding_dim
        for _ in range(config.num_hidden):
            layers += [nn.Linear(inputs, config.width), nn.LeakyReLU(0.2)]
            inputs = config.width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, math.prod(self._image)), nn.Tanh())

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1]."""
        features = torch.cat([latents_NZ, self.embedding(labels_N)], dim=1)
        pixels_NP: Tensor = self.layers(features)
        return pixels_NP.reshape(-1, *self._image)
