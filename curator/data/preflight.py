"""Compare a source with what the steward declared; the report is for the steward alone."""

from __future__ import annotations

import numpy as np

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.privacy.facts import DatasetFacts


def check_source(images: LabelledImages, facts: DatasetFacts) -> tuple[str, ...]:
    """Check that every image fits the declared facts.

    Args:
        images: What the reader returned.
        facts: What the steward typed in.

    Returns:
        Lines for the steward: true size and class counts. They are private.

    Raises:
        SourceError: If an image or label does not fit the declaration.
    """
    shape = (facts.channels, facts.height, facts.width)
    if images.levels.shape[1:] != shape:
        msg = f"the images have shape {images.levels.shape[1:]}, declared is {shape}"
        raise SourceError(msg)
    if images.levels.max() > facts.max_level:
        msg = f"a pixel has level {images.levels.max()}, declared is at most {facts.max_level}"
        raise SourceError(msg)
    if images.labels.min() < 0 or images.labels.max() >= len(facts.classes):
        msg = (
            f"labels run from {images.labels.min()} to {images.labels.max()}, "
            f"declared are {len(facts.classes)} classes (0 to {len(facts.classes) - 1})"
        )
        raise SourceError(msg)
    if len(images.labels) > facts.max_size:
        msg = f"there are {len(images.labels)} images, declared are at most {facts.max_size}"
        raise SourceError(msg)
    counts = np.bincount(images.labels, minlength=len(facts.classes))
    return (
        f"{len(images.labels)} images (declared nominal size {facts.nominal_size})",
        "per class: "
        + ", ".join(f"{name} {count}" for name, count in zip(facts.classes, counts, strict=True)),
    )
