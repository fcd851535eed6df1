"""A deep classifier in the shape of ResNet-18, and the epoch of it that noised counts choose.

Published deep classifiers are chosen on private records. So is this one: at some epochs it is
counted how many private records it gets right, the counts are noised, and the largest wins. One
record changes each count by at most one, so a count is a Gaussian release of sensitivity 1. What
all counts cost is added to what the ledger charged, by the ledger's rule; the ledger is not told,
as no curator makes this choice.

Shapes: N images, C channels, H height, W width, K classes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from analyst.evaluation.image_file import LabelledImages
from analyst.generators.generator import initialise
from analyst.training.state import half_cosine
from benchmarks.papers.work import Work
from curator.accounting.calibrate import least_noise_near
from curator.accounting.cost import Cost, event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.rule import BudgetRule
from curator.administration.open_ledger import open_ledger_reader
from curator.config import load_config
from curator.folder import CuratorFolder
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import lattice_radius

_PART_OF_EPSILON: Final = 0.01  # that the choice may add to what was charged
_MOST_CHOICES: Final = 4
_BATCH: Final = 128
_AT_ONCE: Final = 1000
_LEARNING_RATE: Final = 1e-3
_BLOCKS: Final = ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1))
"""Of each block: channels over the width, and stride."""


class _Block(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        short = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]
        self.short = nn.Sequential(*(short if stride > 1 or inputs != outputs else []))

    def forward(self, images: Tensor) -> Tensor:
        """Return the sum of both, rectified."""
        return relu(self.body(images) + self.short(images))


def build_deep(channels: int, num_classes: int, width: int, seed: int) -> nn.Sequential:
    """Return a new network: a convolution, eight blocks of two, the mean of each channel, a map.

    Args:
        channels: C.
        num_classes: K.
        width: Channels of the first blocks; 64 as published.
        seed: Of the weights.
    """
    with torch.device("meta"):  # torch would draw from the global random state
        stem = (nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        blocks, inputs = list[nn.Module](), width
        for times, stride in _BLOCKS:
            blocks.append(_Block(inputs, times * width, stride))
            inputs = times * width
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, num_classes))
        network = nn.Sequential(*stem, nn.ReLU(), *blocks, *head)
    initialise(network, torch.Generator().manual_seed(seed))
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
    return network


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The noise of one count, and what all counts and the ledger's charges come to."""

    noise_multiplier: float
    epsilon: float


def choice_of(rule: BudgetRule, spent: Cost, num_choices: int) -> Choice:
    """Return the least noise of counts that add a hundredth to an epsilon.

    Args:
        rule: Of the data set.
        spent: What the ledger charged.
        num_choices: How many counts.

    Privacy:
        Counts are composed with all charges by the same rule, so the epsilon holds for both.
    """
    most = rule.spent_epsilon(spent) * (1 + _PART_OF_EPSILON)

    def total(noise_multiplier: float) -> float:
        cost = event_cost(GaussianEvent(noise_multiplier=noise_multiplier)) * num_choices
        return rule.spent_epsilon(spent + cost)

    def enough(noise_multiplier: float) -> bool:
        return total(noise_multiplier) <= most

    noise = least_noise_near(10.0, enough, tolerance=1e-3, most=MAX_NOISE_MULTIPLIER)
    return Choice(noise_multiplier=noise, epsilon=total(noise))


def noised(counts: list[int], noise_multiplier: float) -> list[float]:
    """Return counts with the curator's discrete Gaussian noise, of randomness of the system.

    Privacy:
        Sensitivity of each count: 1 under adding or removing one record.
    """
    radius = lattice_radius(noise_multiplier, sensitivity_in_radii=1)
    draws = OsEntropy().discrete_gaussian(len(counts)).tolist()
    return [count + draw / radius for count, draw in zip(counts, draws, strict=True)]


def measure_deep(
    work: Work,
    synthetic: LabelledImages,
    private: LabelledImages,
    test: LabelledImages,
    folder: CuratorFolder,
    dataset: str,
) -> dict[str, float]:
    """Learn on synthetic images, choose an epoch by noised counts, test it.

    Args:
        work: Its settings say `deep_width` and `deep_epochs`.
        synthetic: Images to learn.
        private: The records, with levels up to 255.
        test: Public images.
        folder: The curator's, whose ledger says what was charged.
        dataset: Its name there.

    Returns:
        The accuracy in percent, the epsilon with the choice, and the noise of a count.
    """
    with contextlib.closing(open_ledger_reader(folder, load_config(folder.config))) as ledger:
        account = ledger.account(dataset)
    epochs = int(work.settings["deep_epochs"])
    chosen_after = sorted({epochs * part // (2 * _MOST_CHOICES) for part in range(5, 9)} - {0})
    choice = choice_of(account.rule, account.spent, len(chosen_after))
    correct = _learn(work, synthetic, (private, test), chosen_after)
    counts = noised([counts[0] for counts in correct], choice.noise_multiplier)
    best = int(np.argmax(counts))
    return {
        "deep": round(100 * correct[best][1] / len(test.labels), 2),
        "deep_epsilon": round(choice.epsilon, 6),
        "deep_noise_multiplier": float(f"{choice.noise_multiplier:.4g}"),
    }


def _learn(
    work: Work,
    synthetic: LabelledImages,
    others: tuple[LabelledImages, LabelledImages],
    chosen_after: list[int],
) -> list[tuple[int, int]]:
    """Train; return how many of others are right after some epochs."""
    num_classes = int(max(synthetic.labels.max(), *(one.labels.max() for one in others))) + 1
    channels, width = synthetic.images.shape[1], int(work.settings["deep_width"])
    network = build_deep(channels, num_classes, width, work.seed).to(work.device)
    images = torch.from_numpy(synthetic.images).to(work.device)
    labels = torch.from_numpy(synthetic.labels).to(work.device)
    optimizer = torch.optim.Adam(network.parameters())
    randomness, found = torch.Generator().manual_seed(work.seed), list[tuple[int, int]]()
    num_epochs = int(work.settings["deep_epochs"])
    for epoch in range(num_epochs):
        work.left()
        network.train()
        optimizer.param_groups[0]["lr"] = _LEARNING_RATE * half_cosine(epoch / num_epochs)
        order = torch.randperm(len(labels), generator=randomness).to(work.device)
        for rows in torch.split(order, _BATCH):
            if len(rows) < 2:  # of one row no channel has a spread
                continue
            loss = cross_entropy(network(_scaled(images[rows])), labels[rows])
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward([loss])
            optimizer.step()
        if epoch + 1 in chosen_after:
            found.append(cast("tuple[int, int]", tuple(_right(network, one) for one in others)))
    return found


@torch.no_grad()
def _right(network: nn.Sequential, data: LabelledImages) -> int:
    network.eval()
    device = next(network.parameters()).device
    images = torch.from_numpy(data.images)
    chunks = [network(_scaled(one.to(device))).argmax(1) for one in torch.split(images, _AT_ONCE)]
    given: npt.NDArray[np.int64] = torch.cat(chunks).cpu().numpy()
    return int((given == data.labels).sum())


def _scaled(images: Tensor) -> Tensor:
    return images.float().div_(127.5).sub_(1).contiguous(memory_format=torch.channels_last)
