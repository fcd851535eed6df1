"""How a generator reaches any image size: double a small map until it covers, then crop the middle.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

from torch import Tensor, nn

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


def quarter(kind: str, shape: ImageShape) -> tuple[int, int]:
    """Return height and width of the map that two doublings bring to the image.

    Raises:
        ValueError: If height or width is not a multiple of 4.
    """
    if shape.height % 4 or shape.width % 4:
        msg = f"{kind} needs sides that are multiples of 4, not {shape.height}x{shape.width}"
        raise ValueError(msg)
    return shape.height // 4, shape.width // 4


def doubled(inputs: int, channels: int, seed: tuple[int, int], doublings: int) -> list[nn.Module]:
    """Return layers from 1 x 1 to a first map, doubled so often with half of its channels each.

    Args:
        inputs: Numbers of a row.
        channels: Of the first map.
        seed: Its height and width.
        doublings: How often.
    """
    layers: list[nn.Module] = [nn.ConvTranspose2d(inputs, channels, seed, bias=False)]
    for _ in range(doublings):
        layers += normalised(channels)
        layers.append(
            nn.ConvTranspose2d(channels, channels // 2, 4, stride=2, padding=1, bias=False)
        )
        channels //= 2
    return [*layers, *normalised(channels)]


def normalised(channels: int) -> tuple[nn.Module, nn.Module]:
    """Return normalisation by the statistics of the batch, and a rectifier."""
    return nn.BatchNorm2d(channels, track_running_stats=False), nn.ReLU(inplace=True)


def crop(images_NCHW: Tensor, shape: ImageShape) -> Tensor:
    """Return the middle of each image, of the height and width of `shape`."""
    top = (images_NCHW.shape[2] - shape.height) // 2
    left = (images_NCHW.shape[3] - shape.width) // 2
    return images_NCHW[:, :, top : top + shape.height, left : left + shape.width]
