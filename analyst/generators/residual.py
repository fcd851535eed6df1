"""A BigGAN-style residual generator: spectral norm, class-conditional batch norm.

The defaults are those of DP-Sinkhorn's released code for 32 x 32 faces: latents of 32 dimensions, a
linear layer to 256 x 4 x 4, three up-blocks of 256 channels. Labels enter through the
normalisations only. Batch statistics are used at evaluation too. For larger images the blocks whose
maps are longer than `wide_side` have half the channels of the block before, so that each of them
takes about as long as the last wide one.

Shapes: N rows, Z latent dimensions, C channels, F features, H height, W width.
"""

from __future__ import annotations

import itertools
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, relu

from analyst.generators.configs import ResidualConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape
from analyst.generators.normalisation import ClassBatchNorm2d, spectral_norm
from analyst.generators.sizes import crop, num_doublings, seed_size

_LONGEST_SEED = 4


@final
class UpBlock(nn.Module):
    """Doubles height and width; the shortcut is a 1 x 1 convolution."""

    def __init__(self, width: int, narrow: int, num_classes: int) -> None:
        """Build a block from `width` channels to as many or fewer."""
        super().__init__()
        self.norms = nn.ModuleList(ClassBatchNorm2d(one, num_classes) for one in (width, narrow))
        self.first = spectral_norm(nn.Conv2d(width, narrow, 3, padding=1))
        self.second = spectral_norm(nn.Conv2d(narrow, narrow, 3, padding=1))
        self.shortcut = spectral_norm(nn.Conv2d(width, narrow, 1))

    def forward(self, features_NFHW: Tensor, labels_N: Tensor) -> Tensor:
        """Return features [N, F, 2 H, 2 W]."""
        inner = relu(self.norms[0](features_NFHW, labels_N))
        inner = self.first(interpolate(inner, scale_factor=2))
        inner = self.second(relu(self.norms[1](inner, labels_N)))
        # nearest neighbours commute with a 1 x 1 convolution, which is four times cheaper first
        straight: Tensor = interpolate(self.shortcut(features_NFHW), scale_factor=2)
        straight += inner
        return straight


@final
class ResidualGenerator(ConditionalGenerator):
    """A linear layer to a map of at most 4 x 4, then up-blocks until it covers the image."""

    batch_dependent = True

    def __init__(self, config: ResidualConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`."""
        super().__init__(config, shape)
        self._shape = shape
        doublings = num_doublings(shape, seed_side=_LONGEST_SEED, least=1)
        self._seed = (config.width, *seed_size(shape, doublings))
        flat = self._seed[0] * self._seed[1] * self._seed[2]
        self.linear = spectral_norm(nn.Linear(config.latent_dim, flat))
        widths = [config.width]
        for done in range(1, doublings + 1):
            is_wide = max(self._seed[1:]) << done <= config.wide_side
            widths.append(widths[-1] if is_wide else max(1, widths[-1] // 2))
        self.blocks = nn.ModuleList(
            UpBlock(*pair, shape.num_classes) for pair in itertools.pairwise(widths)
        )
        self.norm = nn.BatchNorm2d(widths[-1], track_running_stats=False)
        self.last = spectral_norm(nn.Conv2d(widths[-1], shape.channels, 3, padding=1))

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1], normalised over these N rows."""
        features = self.linear(latents_NZ).reshape(-1, *self._seed)
        for block in self.blocks:
            features = block(features, labels_N)
        images = torch.tanh(self.last(relu(self.norm(features))))
        return crop(images, self._shape)
