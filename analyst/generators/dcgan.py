"""The DCGAN-style generator of DP-Sinkhorn's released code: 957,969 parameters at 28 x 28.

Batch normalisation always uses the statistics of the current batch, at evaluation too, as that
code does. No running statistics exist, so none can be switched to by accident: `train()` and
`eval()` make no difference. The price is that an image depends on the other rows of its batch;
`batch_dependent` says so, and `analyst.generators.sampling` uses balanced batches of one size.

Shapes: N rows, Z latent dimensions, C channels, H height, W width.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from analyst.generators.configs import DcganConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape
from analyst.generators.sizes import quarter


@final
class DcganGenerator(ConditionalGenerator):
    """Three transposed convolutions and a convolution, from 1 x 1 to H x W."""

    batch_dependent = True

    def __init__(self, config: DcganConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`, whose height and width are multiples of 4."""
        super().__init__(config, shape)
        width = config.width
        seed = quarter("dcgan", shape)
        self.embedding = nn.Embedding(shape.num_classes, config.embedding_dim)
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(
                config.latent_dim + config.embedding_dim, 4 * width, seed, bias=False
            ),
            *_normalise(4 * width),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1, bias=False),
            *_normalise(2 * width),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
            *_normalise(width),
            nn.Conv2d(width, shape.channels, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1], normalised over these N rows."""
        features = torch.cat([latents_NZ, self.embedding(labels_N)], dim=1)
        images: Tensor = self.layers(features[:, :, None, None])
        return images


def _normalise(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(channels, track_running_stats=False), nn.LeakyReLU(0.2)
