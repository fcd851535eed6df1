"""The generator for colour faces that DP-SWD needs: a plain DCGAN decoder, 64 x 64 by default.

The paper gives the size of the features that it compares, 8192 = 512 x 4 x 4, which is this
network's first map; its code for faces is not public, so the layers in between are DCGAN's. The
label enters as a one-hot vector beside the code. Batch statistics are used at evaluation too.

Large pictures may be made at a part of their size and enlarged smoothly, by bilinear interpolation.
Features that are few beside the pixels say little of single ones, and a generator that makes each
on its own fits their noise.

Shapes: N rows, Z latent dimensions, K classes, C channels, H height, W width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from analyst.generators.configs import DpSwdConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape
from analyst.generators.sizes import crop, doubled, seed_size

_DOUBLINGS = 4


@final
class DpSwdGenerator(ConditionalGenerator):
    """Code and one-hot label to 8 width x H/16 x W/16, doubled four times, and then enlarged."""

    batch_dependent = True

    def __init__(self, config: DpSwdConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`."""
        super().__init__(config, shape)
        self._shape, self._enlarged = shape, config.enlarged
        channels = config.width << (_DOUBLINGS - 1)
        inputs = config.latent_dim + shape.num_classes
        made = replace(
            shape,
            height=-(-shape.height // config.enlarged),
            width=-(-shape.width // config.enlarged),
        )
        layers = doubled(inputs, channels, seed_size(made, _DOUBLINGS), _DOUBLINGS - 1)
        last = nn.ConvTranspose2d(config.width, shape.channels, 4, stride=2, padding=1)
        self.layers = nn.Sequential(*layers, last, nn.Tanh())

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1], normalised over these N rows."""
        labels_NK = nn.functional.one_hot(labels_N, self.num_classes).to(latents_NZ)
        features = torch.cat([latents_NZ, labels_NK], dim=1)
        images: Tensor = self.layers(features[:, :, None, None])
        if self._enlarged > 1:
            images = nn.functional.interpolate(
                images, scale_factor=self._enlarged, mode="bilinear", align_corners=False
            )
        return crop(images, self._shape)
