"""How a generator reaches any image size: double a small map until it covers, then crop the middle.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

from torch import Tensor

from analyst.generators.generator import ImageShape


def num_doublings(shape: ImageShape, *, seed_side: int, least: int) -> int:
    """Return how often a map is doubled so that it starts at most `seed_side` pixels long.

    Args:
        shape: Public facts of the data set.
        seed_side: Longest side of the first map, in pixels.
        least: Doublings that are always there.
    """
    count = least
    while max(shape.height, shape.width) > seed_side << count:
        count += 1
    return count


def seed_size(shape: ImageShape, doublings: int) -> tuple[int, int]:
    """Return height and width of the first map: rounded up, so the last one covers the image."""
    return -(-shape.height >> doublings), -(-shape.width >> doublings)


def crop(images_NCHW: Tensor, shape: ImageShape) -> Tensor:
    """Return the middle of each image, of the height and width of `shape`."""
    top = (images_NCHW.shape[2] - shape.height) // 2
    left = (images_NCHW.shape[3] - shape.width) // 2
    return images_NCHW[:, :, top : top + shape.height, left : left + shape.width]
