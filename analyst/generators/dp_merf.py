"""The generator of DP-MERF: two dense layers, then two upsampled 5 x 5 convolutions.

The label enters as a one-hot vector beside the code. As with the other generators here, batch
normalisation always uses the statistics of the current batch; the paper's code switches to running
averages when it samples.

Shapes: N rows, Z latent dimensions, K classes, C channels, H height, W width.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from analyst.generators.configs import DpMerfConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape
from analyst.generators.sizes import quarter

_KERNEL = 5
_HIDDEN = 200


@final
class DpMerfGenerator(ConditionalGenerator):
    """Code and one-hot label to H/4 x W/4 features, upsampled twice."""

    batch_dependent = True

    def __init__(self, config: DpMerfConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`, whose height and width are multiples of 4."""
        super().__init__(config, shape)
        width = config.width
        seed = (width, *quarter("dp-merf", shape))
        flat = seed[0] * seed[1] * seed[2]
        self.layers = nn.Sequential(
            nn.Linear(config.latent_dim + shape.num_classes, _HIDDEN),
            nn.BatchNorm1d(_HIDDEN, track_running_stats=False),
            nn.ReLU(),
            nn.Linear(_HIDDEN, flat),
            nn.BatchNorm1d(flat, track_running_stats=False),
            nn.Unflatten(1, seed),
            *_upsampled(width, width // 2),
            nn.ReLU(),
            *_upsampled(width // 2, shape.channels),
            nn.Sigmoid(),
        )

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1], normalised over these N rows."""
        labels_NK = nn.functional.one_hot(labels_N, self.num_classes).to(latents_NZ)
        images: Tensor = self.layers(torch.cat([latents_NZ, labels_NK], dim=1))
        return 2 * images - 1


def _upsampled(channels: int, out: int) -> tuple[nn.Module, nn.Module]:
    upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    return upsample, nn.Conv2d(channels, out, _KERNEL, padding=_KERNEL // 2)
