"""Sample grids as PNG: a row per class, tiles enlarged and kept apart, readable at 8 x 8.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

from analyst.new_file import new_file

MIN_TILE = 48  # pixels of a tile's longer side, at least
BORDER = 4
_BACKGROUND = 96  # neither ink nor paper
_DRAWABLE = frozenset({1, 3})

Pixels = npt.NDArray[np.uint8]


def to_pixels(images_NCHW: Tensor) -> Pixels:
    """Return images in [-1, 1] as bytes [N, C, H, W], rounded."""
    scaled = ((images_NCHW.detach().cpu().clamp(-1, 1) + 1) * 127.5).round()
    pixels: Pixels = scaled.numpy().astype(np.uint8)
    return pixels


def is_drawable(channels: int) -> bool:
    """Return whether images of so many channels are grey or coloured pictures."""
    return channels in _DRAWABLE


def make_grid(pixels_NCHW: Pixels, columns: int) -> Pixels:
    """Lay images out row by row.

    Args:
        pixels_NCHW: Bytes; 1 channel is grey, 3 are red, green and blue.
        columns: Tiles in a row; the last row may be short.

    Returns:
        Bytes [rows, columns] or [rows, columns, 3], with a border around every tile.

    Raises:
        ValueError: If there is no image or the channels are neither 1 nor 3.
    """
    count, channels, height, width = pixels_NCHW.shape
    if not count or not is_drawable(channels):
        msg = f"a grid needs images of 1 or 3 channels, not {pixels_NCHW.shape}"
        raise ValueError(msg)
    scale = max(1, -(-MIN_TILE // max(height, width)))
    tile_height, tile_width = height * scale + BORDER, width * scale + BORDER
    rows = -(-count // columns)
    canvas = np.full(
        (rows * tile_height + BORDER, columns * tile_width + BORDER, channels),
        _BACKGROUND,
        dtype=np.uint8,
    )
    enlarged = pixels_NCHW.repeat(scale, axis=2).repeat(scale, axis=3).transpose(0, 2, 3, 1)
    for index, tile in enumerate(enlarged):
        top = index // columns * tile_height + BORDER
        left = index % columns * tile_width + BORDER
        canvas[top : top + height * scale, left : left + width * scale] = tile
    return canvas[:, :, 0] if channels == 1 else canvas


def save_grid(path: Path, pixels_NCHW: Pixels, columns: int, *, force: bool = True) -> None:
    """Write a grid as PNG, whole or not at all; directories are made."""
    with new_file(path, replace=force) as partial:
        Image.fromarray(make_grid(pixels_NCHW, columns)).save(partial, format="PNG")
