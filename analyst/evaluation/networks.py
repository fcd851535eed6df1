"""The two networks of the published protocol, trained on synthetic images and stopped on them.

Adam with its defaults; a tenth of the synthetic images is held out; training stops after 10 epochs
without a gain of accuracy on that tenth, and the weights of the best epoch are kept. The papers
leave open, and this project fixes: batches of 128, 3 x 3 kernels that keep the size, 2 x 2 maximum
pooling after each convolution, pixels in [-1, 1]. No random state but the seed's is used.

On a CPU the convolutions run in channels-last order, which is almost twice as fast there.

Shapes: N rows, B rows of a batch, C channels, H height, W width, K classes.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analyst.evaluation.choices import Network as Network
from analyst.generators.generator import initialise

BATCH_SIZE = 128
PATIENCE = 10
HELD_OUT = 10  # one in ten
_HIDDEN = 100
_PREDICTED_AT_ONCE = 1000


@final
class Dropout(nn.Module):
    """Dropout whose masks come from a given source."""

    def __init__(self, randomness: torch.Generator, rate: float = 0.5) -> None:
        """Drop with probability `rate` while training."""
        super().__init__()
        self._randomness = randomness
        self._keep = 1 - rate

    def forward(self, features: Tensor) -> Tensor:
        """Return `features`, thinned out and scaled up while training."""
        if not self.training:
            return features
        mask = torch.empty_like(features).bernoulli_(self._keep, generator=self._randomness)
        return features * mask.div_(self._keep)


def build_network(
    network: Network, image: tuple[int, int, int], num_classes: int, masks: torch.Generator
) -> nn.Sequential:
    """Return a network whose weights are still to be drawn.

    Args:
        network: "mlp" is one hidden layer of 100; "cnn" is convolutions of 32 and 64 channels.
        image: C, H, W.
        num_classes: K.
        masks: Source of the dropout's masks, on the device of the network.
    """
    channels, height, width = image
    if network == "mlp":
        flat = channels * height * width
        return nn.Sequential(
            nn.Flatten(), nn.Linear(flat, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, num_classes)
        )
    flat = 64 * _halved(_halved(height)) * _halved(_halved(width))
    return nn.Sequential(
        *_convolution(channels, 32, masks),
        *_convolution(32, 64, masks),
        nn.Flatten(),
        nn.Linear(flat, num_classes),
    )


def _convolution(inputs: int, outputs: int, masks: torch.Generator) -> tuple[nn.Module, ...]:
    pool = nn.MaxPool2d(2, ceil_mode=True)  # first, so that ReLU has four times less to do
    return nn.Conv2d(inputs, outputs, 3, padding=1), pool, nn.ReLU(), Dropout(masks)


def _halved(side: int) -> int:
    return -(-side // 2)


@final
class NetworkClassifier:
    """One of the two networks, with the calls of a scikit-learn classifier."""

    def __init__(self, network: Network, *, seed: int, device: str = "cpu") -> None:
        """Choose the network.

        Args:
            network: Which one.
            seed: Of the held-out tenth, the weights, the order and the dropout.
            device: A torch device.
        """
        self._network: Network = network
        self._seed = seed
        self._device = torch.device(device)
        self._module: nn.Module = nn.Identity()
        self.num_epochs = 0
        self.held_out_accuracy = 0.0

    def fit(self, images_NCHW: npt.NDArray[np.uint8], labels_N: npt.NDArray[np.int64]) -> None:
        """Train until 10 epochs bring no gain on the held-out tenth.

        Args:
            images_NCHW: Synthetic images, at least 2.
            labels_N: Classes from 0 to K - 1.
        """
        randomness = torch.Generator().manual_seed(self._seed)
        order = torch.randperm(len(labels_N), generator=randomness)
        num_held_out = max(1, len(order) // HELD_OUT)
        images = torch.from_numpy(images_NCHW).to(self._device)
        labels = torch.from_numpy(labels_N).to(self._device)
        held_out, rest = order[:num_held_out].to(self._device), order[num_held_out:]
        self._module = self._build(images_NCHW.shape, int(labels_N.max()) + 1, randomness)
        optimizer = torch.optim.Adam(self._module.parameters())
        best = {name: value.clone() for name, value in self._module.state_dict().items()}
        since_gain, self.num_epochs, self.held_out_accuracy = 0, 0, -1.0
        while since_gain < PATIENCE:
            shuffled = rest[torch.randperm(len(rest), generator=randomness)].to(self._device)
            self._train_epoch(optimizer, images, labels, shuffled)
            self.num_epochs += 1
            predicted = self._predict(images[held_out])
            accuracy = (predicted == labels[held_out]).float().mean().item()
            since_gain += 1
            if accuracy > self.held_out_accuracy:
                self.held_out_accuracy, since_gain = accuracy, 0
                best = {name: value.clone() for name, value in self._module.state_dict().items()}
        self._module.load_state_dict(best)

    def predict(self, images_NCHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Return the class of each image."""
        images = torch.from_numpy(images_NCHW).to(self._device)
        predicted: npt.NDArray[np.int64] = self._predict(images).cpu().numpy()
        return predicted

    def _build(
        self, shape: tuple[int, ...], num_classes: int, randomness: torch.Generator
    ) -> nn.Module:
        masks = torch.Generator(self._device).manual_seed(self._seed)
        image = (shape[1], shape[2], shape[3])
        with torch.device("meta"):
            module = build_network(self._network, image, num_classes, masks)
        initialise(module, randomness)
        module.to(self._device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return module

    def _train_epoch(
        self, optimizer: torch.optim.Adam, images: Tensor, labels: Tensor, order_N: Tensor
    ) -> None:
        self._module.train()
        for chosen_B in torch.split(order_N, BATCH_SIZE):
            loss = cross_entropy(self._module(_scaled(images[chosen_B])), labels[chosen_B])
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward([loss])
            optimizer.step()

    @torch.no_grad()
    def _predict(self, images_NCHW: Tensor) -> Tensor:
        self._module.eval()
        chunks = torch.split(images_NCHW, _PREDICTED_AT_ONCE)
        return torch.cat([self._module(_scaled(chunk)).argmax(dim=1) for chunk in chunks])


def _scaled(images_NCHW: Tensor) -> Tensor:
    scaled = images_NCHW.float().div_(127.5).sub_(1)
    return scaled.contiguous(memory_format=torch.channels_last)
