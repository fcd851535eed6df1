"""Public labelled images, and their resizing to the target's size: all preprocessing there is.

Nothing here looks at the target; its size and channels are facts that the steward declared.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from analyst.errors import ImageFileError
from analyst.evaluation.image_file import LabelledImages, load_images
from analyst.generators.generator import ImageShape

_READ_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublicImages:
    """Images in [-1, 1] with their labels, and a digest of the file's."""

    images_NCHW: Tensor
    labels_N: Tensor
    digest: str


def read_public(
    path: Path,
    shape: ImageShape,
    *,
    part: Literal["train", "test"] = "train",
    resized: bool = True,
) -> PublicImages:
    """Read labelled public images.

    Args:
        path: An NPZ file, as for `analyst evaluate`.
        shape: Of the target.
        part: Which part of a file with both.
        resized: Whether images are brought to the target's size, bilinearly with antialiasing.

    Raises:
        ImageFileError: If the file cannot be read, has other channels, or has other classes.
    """
    return public_of(load_images(path, part=part), shape, name=str(path), resized=resized)


def public_of(
    data: LabelledImages, shape: ImageShape, *, name: str, resized: bool = True
) -> PublicImages:
    """Return labelled images as a network takes them.

    Args:
        data: Bytes and labels.
        shape: Of the target.
        name: Of where they come from.
        resized: Whether they are brought to the target's size, bilinearly with antialiasing.

    Raises:
        ImageFileError: If they have other channels or classes, or there is none.
    """
    if data.images.shape[1] != shape.channels or not len(data.images):
        message = f"{name} has {len(data.images)} images of {data.images.shape[1]} channels"
        raise ImageFileError(message, f"Give images with {shape.channels} channels.")
    if data.labels.min() < 0 or data.labels.max() >= shape.num_classes:
        message = f"{name} has labels from {data.labels.min()} to {data.labels.max()}"
        raise ImageFileError(message, f"Give labels from 0 to {shape.num_classes - 1}.")
    digest = hashlib.sha256(repr(data.images.shape).encode())
    digest.update(data.images.tobytes())
    digest.update(data.labels.tobytes())
    levels = torch.from_numpy(data.images)
    size = (shape.height, shape.width) if resized else data.images.shape[2:]
    images = torch.cat([_pixels(chunk, size) for chunk in torch.split(levels, _READ_AT_ONCE)])
    return PublicImages(
        images_NCHW=images,
        labels_N=torch.from_numpy(data.labels),
        digest=digest.hexdigest(),
    )


def _pixels(levels_NCHW: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return pixel values in [-1, 1] at a size."""
    pixels_NCHW = levels_NCHW.to(torch.float32) / 127.5 - 1
    if pixels_NCHW.shape[2:] != size:
        pixels_NCHW = interpolate(pixels_NCHW, list(size), mode="bilinear", antialias=True)
    return pixels_NCHW.clamp(-1, 1)


_AT_ONCE = 1000


@torch.no_grad()
def accuracy(model: nn.Module, test: PublicImages) -> float:
    """Return the accuracy on labelled public images.

    Returns:
        A share in [0, 1].
    """
    right = 0
    parts = (torch.split(values, _AT_ONCE) for values in (test.images_NCHW, test.labels_N))
    for images_NCHW, labels_N in zip(*parts, strict=True):
        right += int((model(images_NCHW).argmax(dim=1) == labels_N).sum())
    return right / len(test.labels_N)
