"""Codes of images by an autoencoder that learned on public images, as bytes like any other image.

A steward who encodes each record so changes nothing of what a budget means: a code is a function of
its record and of public weights. The curator serves the codes as images of many channels, the
analyst's generator makes codes, and the public decoder makes pictures of them.

Shapes: N images, C code channels, H height, W width.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, mse_loss

from analyst.evaluation.image_file import LabelledImages
from analyst.generators.generator import initialise
from analyst.training.grid import to_pixels

_BATCH = 32
_SLOPE = 0.2
_AT_ONCE = 256
_SEED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeSize:
    """How large codes and the autoencoder are, and how long it learns."""

    channels: int = 512  # 8,192 numbers at 64 x 64, as published
    width: int = 64
    num_steps: int = 20_000


class Autoencoder(nn.Module):
    """Four convolutions of stride 2 down to a code in (0, 1), and back."""

    def __init__(self, size: CodeSize, channels: int) -> None:
        """Build the layers."""
        super().__init__()
        wide = (channels, size.width, 2 * size.width, 4 * size.width, size.channels)
        down = itertools.pairwise(wide)
        up = itertools.pairwise(reversed(wide))
        self.down = nn.ModuleList(nn.Conv2d(a, b, 4, stride=2, padding=1) for a, b in down)
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 4, stride=2, padding=1) for a, b in up)

    def encode(self, images_NCHW: Tensor) -> Tensor:
        """Return codes in (0, 1)."""
        *layers, last = self.down
        for layer in layers:
            images_NCHW = leaky_relu(layer(images_NCHW), _SLOPE)
        return torch.sigmoid(last(images_NCHW))

    def decode(self, codes_NCHW: Tensor) -> Tensor:
        """Return images in (-1, 1)."""
        *layers, last = self.up
        features = 2 * codes_NCHW - 1
        for layer in layers:
            features = leaky_relu(layer(features), _SLOPE)
        return torch.tanh(last(features))


def learn_public(public: LabelledImages, size: CodeSize) -> Autoencoder:
    """Return an autoencoder that learned on public images, from a fixed seed."""
    randomness = torch.Generator().manual_seed(_SEED)
    model = Autoencoder(size, public.images.shape[1])
    initialise(model, randomness)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.from_numpy(public.images)
    for _ in range(size.num_steps):
        rows = torch.randint(len(images), (_BATCH,), generator=randomness)
        batch = _scaled(images[rows])
        loss = mse_loss(model.decode(model.encode(batch)), batch)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        optimizer.step()
    return model


@torch.no_grad()
def encoded(model: Autoencoder, data: LabelledImages) -> LabelledImages:
    """Return the codes of images, as bytes."""
    chunks = torch.split(torch.from_numpy(data.images), _AT_ONCE)
    codes = [model.encode(_scaled(chunk)).mul_(255).round_().to(torch.uint8) for chunk in chunks]
    return LabelledImages(torch.cat(codes).numpy(), data.labels, classes=data.classes)


@torch.no_grad()
def decoded(model: Autoencoder, codes: LabelledImages) -> LabelledImages:
    """Return the pictures of codes."""
    chunks = torch.split(torch.from_numpy(codes.images), _AT_ONCE)
    made = [to_pixels(model.decode(chunk.float().div_(255))) for chunk in chunks]
    return LabelledImages(np.concatenate(made), codes.labels, classes=codes.classes)


def _scaled(levels_NCHW: Tensor) -> Tensor:
    return levels_NCHW.float().div_(127.5).sub_(1)
