"""Public normal numbers, pinned by a seed and the name of a stream."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from curator.divergences.critics import public_uniforms


def public_normals(seed: int, stream: str, count: int) -> Tensor:
    """Return public standard normal numbers.

    Args:
        seed: Public seed.
        stream: Name of an independent stream under the seed.
        count: How many.

    Returns:
        float32 values, at most 8.6 in size.

    References:
        [box:58].
    """
    radii, turns = public_uniforms(seed, stream, 2 * count).reshape(2, count)
    lengths = (-2 * torch.log1p(-radii)).sqrt()  # radii are below 1
    return (lengths * torch.cos(2 * math.pi * turns)).to(torch.float32)
