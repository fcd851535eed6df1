"""Train a generator of handwritten digits in the plain way: this program holds the images.

python examples/plain_generator.py 2000 digits.npz

`private_generator.py` beside it is the same program for images that it never sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import argv

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

BATCH, LATENT, CLASSES, SIDE = 40, 16, 10, 8


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


def load_batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random batches of real digits for ever."""
    pixels, numbers = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 8 - 1, dtype=torch.float32).view(-1, 1, SIDE, SIDE)
    labels = torch.tensor(numbers)
    while True:
        chosen = torch.randint(len(images), (BATCH,))
        yield images[chosen], labels[chosen]


def distance(images: Tensor, labels: Tensor, real: Tensor, real_labels: Tensor) -> Tensor:
    """Return the energy distance of two batches of images with their labels."""

    def points(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x.flatten(1), 4 * nn.functional.one_hot(y, CLASSES)], dim=1)

    made, true = points(images, labels), points(real, real_labels)
    return 2 * torch.cdist(made, true).mean() - torch.cdist(made, made).mean()


def main(num_steps: int, out: str) -> None:
    """Train, and write a hundred images of each class."""
    batches = load_batches()
    generator = Generator()
    optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    for _ in range(num_steps):
        labels = torch.randint(CLASSES, (BATCH,))
        images = generator(labels)
        optimizer.zero_grad()
        distance(images, labels, *next(batches)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    labels = torch.arange(CLASSES).repeat(100)
    with torch.no_grad():
        images = generator(labels)
    pixels = ((images + 1) * 127.5).round().to(torch.uint8).squeeze(1)
    np.savez(out, images=pixels.numpy(), labels=labels.numpy())


if __name__ == "__main__":
    main(int(argv[1]), argv[2])
