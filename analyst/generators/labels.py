"""Balanced labels: the analyst's choice, which never follows the private class frequencies.

Shapes: N rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def balanced_labels(num_rows: int, num_classes: int, generator: torch.Generator) -> Tensor:
    """Return labels in random order, each class equally often.

    Args:
        num_rows: N; what does not divide goes to classes drawn without replacement.
        num_classes: Number of classes.
        generator: The source of randomness; it advances.

    Returns:
        Labels [N], int64.
    """
    import torch  # here: recipes are read without it

    whole = torch.arange(num_classes).repeat(num_rows // num_classes)
    rest = torch.randperm(num_classes, generator=generator)[: num_rows % num_classes]
    labels_N = torch.cat([whole, rest])
    return labels_N[torch.randperm(num_rows, generator=generator)]
