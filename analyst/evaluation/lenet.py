"""Features of a LeNet for small grey images, where Inception's features mean little.

The network is trained on public images, in a fixed number of steps from a fixed seed. Another
public set, torch version or device gives other features, so distances are comparable within one
report only.

Shapes: N rows, H height, W width, D features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate, max_pool2d, relu

from analyst.evaluation.image_file import LabelledImages
from analyst.generators.generator import initialise

NUM_FEATURES = 84
LARGEST_SIDE = 64
_SIDE = 32  # of the network's input
_SEED = 0
_BATCH_SIZE = 128
_NUM_EPOCHS = 4
_LEAST_STEPS = 200
_AT_ONCE = 1000


@final
class LeNet(nn.Module):
    """LeNet-5 with rectified units and maximum pooling."""

    def __init__(self, num_classes: int) -> None:
        """Build the layers."""
        super().__init__()
        self.first = nn.Conv2d(1, 6, 5)
        self.second = nn.Conv2d(6, 16, 5)
        self.third = nn.Linear(400, 120)
        self.fourth = nn.Linear(120, NUM_FEATURES)
        self.last = nn.Linear(NUM_FEATURES, num_classes)

    def features(self, images_N1HW: Tensor) -> Tensor:
        """Return the activations [N, 84] before the last layer."""
        side = (_SIDE, _SIDE)
        resized = interpolate(images_N1HW, side, mode="bilinear", antialias=True)
        maps = max_pool2d(relu(self.first(resized)), 2)
        maps = max_pool2d(relu(self.second(maps)), 2)
        return relu(self.fourth(relu(self.third(maps.flatten(1)))))

    def forward(self, images_N1HW: Tensor) -> Tensor:
        """Return a score per class."""
        scores: Tensor = self.last(self.features(images_N1HW))
        return scores


def is_small_and_grey(data: LabelledImages) -> bool:
    """Return whether these features are meant for such images."""
    _, channels, height, width = data.images.shape
    return bool(channels == 1 and max(height, width) <= LARGEST_SIDE)


def train_lenet(public: LabelledImages, *, device: str = "cpu") -> LeNet:
    """Train on public images: 4 epochs, at least 200 steps, Adam's defaults.

    Args:
        public: Images of one channel; never private ones.
        device: A torch device.
    """
    randomness = torch.Generator().manual_seed(_SEED)
    classes, encoded = np.unique(public.labels, return_inverse=True)
    with torch.device("meta"):
        model = LeNet(len(classes))
    initialise(model, randomness)
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.from_numpy(public.images), torch.from_numpy(encoded)
    size = min(_BATCH_SIZE, len(labels))
    for _ in range(max(_LEAST_STEPS, _NUM_EPOCHS * len(labels) // size)):
        chosen = torch.randint(len(labels), (size,), generator=randomness)
        loss = cross_entropy(model(_scaled(images[chosen], device)), labels[chosen].to(device))
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([loss])
        optimizer.step()
    return model


@torch.no_grad()
def lenet_features(model: LeNet, data: LabelledImages) -> npt.NDArray[np.float32]:
    """Return the features [N, 84] of images of one channel."""
    return _rows(model, data, model.features)


@torch.no_grad()
def lenet_probabilities(model: LeNet, data: LabelledImages) -> npt.NDArray[np.float32]:
    """Return the class probabilities [N, K] of images of one channel."""
    return _rows(model, data, lambda images: model(images).softmax(dim=1))


def _rows(
    model: LeNet, data: LabelledImages, of: Callable[[Tensor], Tensor]
) -> npt.NDArray[np.float32]:
    device = str(next(model.parameters()).device)
    chunks = torch.split(torch.from_numpy(data.images), _AT_ONCE)
    found: npt.NDArray[np.float32] = torch.cat(
        [of(_scaled(chunk, device)).cpu() for chunk in chunks]
    ).numpy()
    return found


def _scaled(images_N1HW: Tensor, device: str) -> Tensor:
    return images_N1HW.to(device).float().div_(127.5).sub_(1)
