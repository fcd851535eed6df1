"""Images from a trained generator, with balanced labels.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from analyst.generators.generator import ConditionalGenerator, draw_latents

SAMPLING_ROWS_PER_CLASS = 20


@torch.no_grad()
def generate(
    model: ConditionalGenerator, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Generate `count` images with balanced labels.

    Every batch has the same size and is balanced, so that a generator that normalises over its
    batch sees the same kind of batch for every image; the surplus of the last one is dropped.

    Args:
        model: A trained generator.
        count: N, at least 1.
        generator: The source of randomness; it advances.

    Returns:
        Images [N, C, H, W] in [-1, 1] on the CPU, and labels [N]; each class `count / num_classes`
        times, give or take one.
    """
    device = next(model.parameters()).device
    images: list[Tensor] = []
    labels: list[Tensor] = []
    for labels_B in _batches(count, model.num_classes, generator):
        latents = draw_latents(model.latent, len(labels_B), model.latent_dim, generator)
        images.append(model(latents.to(device), labels_B.to(device)).cpu())
        labels.append(labels_B)
    return torch.cat(images)[:count], torch.cat(labels)[:count]


def _batches(count: int, num_classes: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield label batches of one size; cut at `count` they stay balanced, give or take one."""
    rows = SAMPLING_ROWS_PER_CLASS * num_classes
    for _ in range(0, count, rows):
        rounds = [
            torch.randperm(num_classes, generator=generator) for _ in range(SAMPLING_ROWS_PER_CLASS)
        ]
        yield torch.cat(rounds)


def balanced_labels(num_rows: int, num_classes: int, generator: torch.Generator) -> Tensor:
    """Return labels in random order, each class equally often.

    Args:
        num_rows: N; what does not divide goes to classes drawn without replacement.
        num_classes: Number of classes.
        generator: The source of randomness; it advances.

    Returns:
        Labels [N], int64.
    """
    whole = torch.arange(num_classes).repeat(num_rows // num_classes)
    rest = torch.randperm(num_classes, generator=generator)[: num_rows % num_classes]
    labels_N = torch.cat([whole, rest])
    return labels_N[torch.randperm(num_rows, generator=generator)]
