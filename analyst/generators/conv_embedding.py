"""The convolutional generator of this project's first trials with released mean embeddings.

Normal latents and a label embedding, transposed convolutions of 256, 128 and 64 channels, logistic
pixels. Any image size: more doublings for larger images, a crop for sides that are not multiples.

Shapes: N rows, Z latent dimensions, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from analyst.generators.configs import ConvEmbeddingConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape
from analyst.generators.last_layers import rectified_convolution
from analyst.generators.sizes import crop, doubled, num_doublings, seed_size

_LONGEST_SEED = 8
_LEAST_DOUBLINGS = 2
_NUM_LAST = 4  # normalisation, rectifier, convolution and logistic function


@final
class ConvEmbeddingGenerator(ConditionalGenerator):
    """From 1 x 1 to a map of at most 8 x 8, then doubled until it covers the image."""

    batch_dependent = True

    def __init__(self, config: ConvEmbeddingConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`."""
        super().__init__(config, shape)
        self._shape = shape
        doublings = num_doublings(shape, seed_side=_LONGEST_SEED, least=_LEAST_DOUBLINGS)
        channels = config.width << doublings
        inputs = config.latent_dim + config.embedding_dim
        self.embedding = nn.Embedding(shape.num_classes, config.embedding_dim)
        layers = doubled(inputs, channels, seed_size(shape, doublings), doublings)
        self.layers = nn.Sequential(
            *layers, nn.Conv2d(config.width, shape.channels, 3, padding=1), nn.Sigmoid()
        )

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1], normalised over these N rows."""
        features = torch.cat([latents_NZ, self.embedding(labels_N)], dim=1)
        maps: Tensor = self.layers[0](features[:, :, None, None])
        if maps.device.type == "cpu":  # where layers are faster with the channels innermost
            maps = maps.contiguous(memory_format=torch.channels_last)
            maps = self.layers[1:-_NUM_LAST](maps)
            last: list[Any] = list(self.layers)[-_NUM_LAST:]
            norm, _, convolution, logistic = last
            images: Tensor = logistic(rectified_convolution(maps, norm, convolution))
        else:
            images = self.layers[1:](maps)
        return crop(2 * images - 1, self._shape)
