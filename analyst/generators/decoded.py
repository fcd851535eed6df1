"""A small conditional generator of codes, and a released decoder that makes images of them.

The decoder's weights come with the release of a run and are never trained here. What is compared
with the release are codes; images are what is sampled.

Shapes: N rows, Z latent dimensions, E entries of a code, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from analyst.generators.configs import DecodedConfig
from analyst.generators.generator import ConditionalGenerator, ImageShape

_SLOPE = 0.2


@final
class DecodedGenerator(ConditionalGenerator):
    """Latent and label embedding through hidden layers to a code, then through a fixed decoder."""

    batch_dependent = False

    def __init__(self, config: DecodedConfig, shape: ImageShape) -> None:
        """Build the layers for `shape`."""
        super().__init__(config, shape)
        self._image = (shape.channels, shape.height, shape.width)
        self.embedding = nn.Embedding(shape.num_classes, config.embedding_dim)
        layers: list[nn.Module] = []
        inputs = config.latent_dim + config.embedding_dim
        for _ in range(config.num_hidden):
            layers += [nn.Linear(inputs, config.width), nn.LeakyReLU(_SLOPE)]
            inputs = config.width
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, config.code_width), nn.Softsign())
        self.decoder_hidden = nn.Linear(config.code_width, config.hidden_width)
        self.decoder_pixels = nn.Linear(config.hidden_width, math.prod(self._image))
        for layer in (self.decoder_hidden, self.decoder_pixels):
            layer.requires_grad_(requires_grad=False)

    def codes(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return codes [N, E] in (-1, 1)."""
        features = torch.cat([latents_NZ, self.embedding(labels_N)], dim=1)
        codes_NE: Tensor = self.layers(features)
        return codes_NE

    def forward(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
        """Return images [N, C, H, W] in [-1, 1]."""
        hidden = leaky_relu(self.decoder_hidden(self.codes(latents_NZ, labels_N)), _SLOPE)
        return torch.tanh(self.decoder_pixels(hidden)).reshape(-1, *self._image)

    @torch.no_grad()
    def take_decoder(self, weights: Mapping[str, Tensor]) -> None:
        """Copy released weights into the decoder.

        Raises:
            ValueError: If one is missing or has another size than the recipe says.
        """
        for part, layer in (("hidden", self.decoder_hidden), ("pixels", self.decoder_pixels)):
            for kind, own in (("weight", layer.weight), ("bias", layer.bias)):
                given = weights.get(f"decoder.{part}.{kind}")
                if given is None or given.shape != own.shape:
                    msg = f"the released decoder has no {part} {kind} of {tuple(own.shape)}"
                    raise ValueError(msg)
                own.copy_(given)


def sent_rows(model: ConditionalGenerator, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
    """Return the rows whose gradient is asked: images, or codes where a decoder makes images.

    Returns:
        Images [N, C, H, W], or codes [N, E].
    """
    if isinstance(model, DecodedGenerator):
        return model.codes(latents_NZ, labels_N)
    return model(latents_NZ, labels_N)
