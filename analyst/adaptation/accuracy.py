"""The share of public test images that a classifier gets right; the target's are never asked."""

from __future__ import annotations

import torch

from analyst.adaptation.networks import DomainClassifier
from analyst.adaptation.source import PublicImages

_AT_ONCE = 1000


@torch.no_grad()
def accuracy(model: DomainClassifier, test: PublicImages) -> float:
    """Return the accuracy on labelled public images.

    Returns:
        A share in [0, 1].
    """
    right = 0
    parts = (torch.split(values, _AT_ONCE) for values in (test.images_NCHW, test.labels_N))
    for images_NCHW, labels_N in zip(*parts, strict=True):
        right += int((model(images_NCHW).argmax(dim=1) == labels_N).sum())
    return right / len(test.labels_N)
