"""Small random changes under which an image stays of its class.

It is turned, sheared, scaled and shifted, and its lines are made thicker or thinner. That this
changes no class is known before any record is looked at, so it costs nothing; it widens what a
generator learned of a few numbers about its records.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate, max_pool2d

from analyst.errors import ImageFileError
from analyst.evaluation.image_file import LabelledImages
from analyst.training.grid import is_drawable, to_pixels

_MOST_TURN, _MOST_SHEAR, _MOST_SCALE, _MOST_SHIFT = 0.35, 0.35, 0.25, 0.09
"""At degree 1: radians, a share of the height, of the size, of the side."""
_BENDS: Final = 5  # displacements a side between which a bend is smooth
_AT_ONCE: Final = 1000


def augmented(data: LabelledImages, degree: float, *, seed: int) -> LabelledImages:
    """Return images that are changed at random, each in its own way.

    Args:
        data: Images.
        degree: How much at most, from 0 for nothing to 1.
        seed: Of the changes.

    Raises:
        ImageFileError: If the images are codes and no pictures.
    """
    if degree == 0:
        return data
    channels = data.images.shape[1]
    if not is_drawable(channels):
        message = f"images of {channels} channels are no pictures that can be turned"
        raise ImageFileError(message, "Leave them as they are: --augment 0.")
    randomness = Generator().manual_seed(seed)
    changed = []
    for levels_NCHW in torch.split(torch.from_numpy(data.images), _AT_ONCE):
        images_NCHW = levels_NCHW.float() / 127.5 - 1
        changed.append(
            to_pixels(warped(stroked(images_NCHW, degree, randomness), degree, randomness))
        )
    return LabelledImages(np.concatenate(changed), data.labels, data.classes, data.run_id)


def stroked(images_NCHW: Tensor, degree: float, randomness: Generator) -> Tensor:
    """Return images in [-1, 1] whose bright lines are up to a pixel thicker or thinner."""
    amount_N111 = _drawn_evenly(len(images_NCHW), 1, randomness).reshape(-1, 1, 1, 1) * degree
    thicker = max_pool2d(images_NCHW, 3, stride=1, padding=1)
    thinner = -max_pool2d(-images_NCHW, 3, stride=1, padding=1)
    towards = torch.where(amount_N111 > 0, thicker, thinner)
    return torch.lerp(images_NCHW, towards, amount_N111.abs())


def warped(
    images_NCHW: Tensor, degree: float, randomness: Generator, *, most_bend: float = 0.0
) -> Tensor:
    """Return images in [-1, 1] after an affine warp of their own; what lies outside is -1.

    Args:
        images_NCHW: Images.
        degree: How much at most, from 0 for nothing to 1.
        randomness: Of the warps; it advances.
        most_bend: Standard deviation at degree 1, as a share of half the side, of the displacements
            of an elastic warp on top.
    """
    count = len(images_NCHW)
    drawn = _drawn_evenly(count, 6, randomness) * degree
    turn, shear = drawn[:, 0] * _MOST_TURN, drawn[:, 1] * _MOST_SHEAR
    wide, tall = (torch.exp(drawn[:, at] * math.log1p(_MOST_SCALE)) for at in (2, 3))
    shift_N2 = drawn[:, 4:] * 2 * _MOST_SHIFT
    cosine, sine = turn.cos(), turn.sin()
    rows = (
        torch.stack((cosine * wide, (shear * cosine - sine) * tall, shift_N2[:, 0]), dim=1),
        torch.stack((sine * wide, (shear * sine + cosine) * tall, shift_N2[:, 1]), dim=1),
    )
    grid_NHW2 = affine_grid(torch.stack(rows, dim=1), list(images_NCHW.shape), align_corners=False)
    if most_bend > 0:
        bends = torch.randn((count, 2, _BENDS, _BENDS), generator=randomness) * degree * most_bend
        smooth = interpolate(bends, images_NCHW.shape[2:], mode="bicubic", align_corners=True)
        grid_NHW2 = grid_NHW2 + smooth.permute(0, 2, 3, 1)
    moved = grid_sample(images_NCHW + 1, grid_NHW2, mode="bicubic", align_corners=False)
    return (moved - 1).clamp_(-1, 1)  # bicubic: changed often, an image must not blur


def _drawn_evenly(count: int, numbers: int, randomness: Generator) -> Tensor:
    """Return numbers in [-1, 1]: (count, numbers)."""
    return torch.rand((count, numbers), generator=randomness) * 2 - 1
