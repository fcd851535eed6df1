"""Train a generator of handwritten digits that this program never sees.

python examples/private_generator.py 300 digits.npz localhost:50051 alice.credentials.json

`plain_generator.py` beside it is the same program for images that it holds. Three lines differ: an
import, and the two that are marked. The loader and the distance are the curator's now.
"""

from __future__ import annotations

from sys import argv
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import analyst

BATCH, LATENT, CLASSES, SIDE = 40, 16, 10, 8
METHOD: tuple[str, str, dict[str, Any]] = (
    "digits",
    "dp-sinkhorn",
    {
        "sampling_rate": 40 / 1437,
        "capacity": 96,
        "num_samples": 32,
        "num_debias": 8,
        "clip_norm": 0.5,
        "noise_multiplier": 1.0,
        "reg": 0.05,
        "l1_weight": 1.0,
        "label_scale": 15.0,
        "schedule": "published",
    },
)


class Generator(nn.Module):
    """A small conditional generator of images in [-1, 1]."""

    def __init__(self) -> None:
        """Make two hidden layers."""
        super().__init__()
        self.embed = nn.Embedding(CLASSES, LATENT)
        layers = [nn.Linear(2 * LATENT, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(256, SIDE * SIDE), nn.Tanh())

    def forward(self, labels: Tensor) -> Tensor:
        """Return an image for each label, from fresh noise."""
        noise = torch.randn(len(labels), LATENT)
        flat: Tensor = self.layers(torch.cat([noise, self.embed(labels)], dim=1))
        return flat.view(-1, 1, SIDE, SIDE)


def main(num_steps: int, out: str) -> None:
    """Train, and write a hundred images of each class."""
    run = analyst.connect(argv[3], credentials=argv[4]).open_run(*METHOD, num_steps=num_steps)
    generator = Generator()
    optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    for _ in range(num_steps):
        labels = torch.randint(CLASSES, (BATCH,))
        images = generator(labels)
        optimizer.zero_grad()
        run.backward(images, labels)
        optimizer.step()
    labels = torch.arange(CLASSES).repeat(100)
    with torch.no_grad():
        images = generator(labels)
    pixels = ((images + 1) * 127.5).round().to(torch.uint8).squeeze(1)
    np.savez(out, images=pixels.numpy(), labels=labels.numpy())


if __name__ == "__main__":
    main(int(argv[1]), argv[2])
