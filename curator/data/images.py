"""Labelled images as the readers return them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError

_IMAGE_DIMENSIONS = 4


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelledImages:
    """Private images with labels; only the steward's commands and the store see one.

    `levels` is uint8 of shape (N, channels, height, width); `labels` is int64 of shape (N).
    """

    levels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


def labelled_images(source: str, images: np.ndarray, labels: np.ndarray) -> LabelledImages:
    """Check two arrays and bring them into one form.

    Args:
        source: Name of the source, for messages.
        images: (N, H, W) or (N, C, H, W), integers in 0..255.
        labels: (N), integers.

    Returns:
        The images with a channel axis.

    Raises:
        SourceError: If shapes, types or counts do not fit, or there are no images.
    """
    if images.ndim == _IMAGE_DIMENSIONS - 1:
        images = images[:, np.newaxis]
    if images.ndim != _IMAGE_DIMENSIONS or 0 in images.shape[1:]:
        msg = f"{source}: images must have shape (N, height, width) or (N, channels, height, width)"
        raise SourceError(msg)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        msg = f"{source}: labels must be one integer per image"
        raise SourceError(msg)
    if len(images) != len(labels):
        msg = f"{source}: {len(images)} images but {len(labels)} labels"
        raise SourceError(msg)
    if not len(images):
        msg = f"{source}: there are no images in it"
        raise SourceError(msg)
    if not np.issubdtype(images.dtype, np.integer) or images.min() < 0 or images.max() > 255:
        msg = f"{source}: pixel values must be integers from 0 to 255"
        raise SourceError(msg)
    return LabelledImages(
        levels=np.ascontiguousarray(images, dtype=np.uint8), labels=labels.astype(np.int64)
    )
