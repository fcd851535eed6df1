"""Critics: small networks that score images of a class, as pure functions of their parameters.

A critic has no buffer and no statistics of a batch, so the score of an image depends on that image,
its label and the parameters alone. Parameters of many critics are stacked along a first axis and
evaluated together.

Shape legend: K critics, N images, D pixels, L classes, F features.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, leaky_relu, linear

Parameters = dict[str, Tensor]

SLOPE = 0.2
KERNEL = 5
_DOMAIN = "weir critics v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class CriticShape:
    """Sizes of one critic; all of them are public.

    `mlp` has two hidden layers of `width`; `conv` has three 5x5 convolutions of stride 2 with
    `width`, 2 `width` and 4 `width` channels. Both end in a projection head: a linear score and an
    inner product with the vector of the label.
    """

    kind: Literal["mlp", "conv"]
    width: int
    channels: int
    height: int
    pixels_per_row: int
    num_classes: int

    @property
    def dimension(self) -> int:
        """Number of values in one image."""
        return self.channels * self.height * self.pixels_per_row

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter, in the order in which they are drawn."""
        if self.kind == "mlp":
            layers: list[tuple[int, ...]] = [
                (self.width, self.dimension),
                (self.width, self.width),
            ]
            features = self.width
        else:
            wide = [self.channels, self.width, 2 * self.width, 4 * self.width]
            layers = [(b, a, KERNEL, KERNEL) for a, b in itertools.pairwise(wide)]
            features = wide[-1] * math.prod(self._grids[-1])
        sizes: dict[str, tuple[int, ...]] = {}
        for number, layer in enumerate(layers):
            sizes[f"weight{number}"] = layer
            sizes[f"bias{number}"] = layer[:1]
        return {**sizes, "score": (1, features), "classes": (self.num_classes, features)}

    @property
    def num_parameters(self) -> int:
        """Number of values of one critic."""
        return sum(math.prod(size) for size in self.sizes.values())

    @property
    def multiplications(self) -> int:
        """Multiplications of one score: how much work a critic is."""
        if self.kind == "mlp":
            return self.num_parameters
        weights = [self.sizes[f"weight{number}"] for number in range(3)]
        grids = (math.prod(grid) for grid in self._grids)
        return self.num_parameters + sum(
            math.prod(size) * area for size, area in zip(weights, grids, strict=True)
        )

    @property
    def activations(self) -> int:
        """Values that a pass over one image holds at once, about: how much memory a row is."""
        if self.kind == "mlp":
            return 3 * (self.dimension + 4 * self.width)
        weights = [self.sizes[f"weight{number}"] for number in range(3)]
        grids = (math.prod(grid) for grid in self._grids)
        return 3 * sum(
            (math.prod(size[1:]) + 2 * size[0]) * area
            for size, area in zip(weights, grids, strict=True)
        )

    @property
    def _grids(self) -> list[tuple[int, int]]:
        grids = [(self.height, self.pixels_per_row)]
        for _ in range(3):
            grids.append(((grids[-1][0] + 1) // 2, (grids[-1][1] + 1) // 2))
        return grids[1:]


def public_uniforms(seed: int, stream: str, count: int) -> Tensor:
    """Return public numbers in [0, 1), pinned by seed and stream: SHAKE-256 words cut to 53 bits.

    Args:
        seed: Public seed.
        stream: Name of an independent stream under the seed.
        count: How many.

    Returns:
        float64 values.
    """
    digest = hashlib.shake_256(f"{_DOMAIN}|{seed}|{stream}".encode("ascii")).digest(8 * count)
    words = np.frombuffer(digest, dtype="<u8") >> 11
    return torch.from_numpy(words.astype(np.float64) * 2.0**-53)


def initial_critics(shape: CriticShape, num_critics: int, seed: int) -> Parameters:
    """Return the first parameters of all critics, each from a stream of its own.

    Args:
        shape: Sizes of each.
        num_critics: K.
        seed: Public seed.

    Returns:
        float32 parameters with a first axis of K: uniform weights of variance 1 / fan-in, and
        biases of zero.
    """
    sizes = shape.sizes
    rows = torch.empty((num_critics, shape.num_parameters))
    for critic in range(num_critics):
        drawn = public_uniforms(seed, f"weights|{critic}", shape.num_parameters)
        rows[critic] = 2 * drawn - 1
    parts = torch.split(rows, [math.prod(size) for size in sizes.values()], dim=1)
    critics: Parameters = {}
    for (name, size), part in zip(sizes.items(), parts, strict=True):
        scale = 0.0 if name.startswith("bias") else math.sqrt(3 / math.prod(size[1:]))
        critics[name] = (part * scale).reshape(num_critics, *size)
    return critics


def scores(shape: CriticShape, critic: Parameters, images_ND: Tensor, onehot_NL: Tensor) -> Tensor:
    """Return the scores of labelled images by one critic.

    Args:
        shape: Its sizes.
        critic: Its parameters, without the axis K.
        images_ND: Pixels in [-1, 1].
        onehot_NL: Labels as rows of an identity matrix.

    Returns:
        One score an image; larger is more like a record.

    References:
        [chen:20], appendix.
    """
    if shape.kind == "mlp":
        features_NF = images_ND
        for number in range(2):
            weight, bias = critic[f"weight{number}"], critic[f"bias{number}"]
            features_NF = leaky_relu(linear(features_NF, weight, bias), SLOPE)
    else:
        grid = images_ND.reshape(-1, shape.channels, shape.height, shape.pixels_per_row)
        for number in range(3):
            weight, bias = critic[f"weight{number}"], critic[f"bias{number}"]
            convolved = conv2d(grid, weight, bias, stride=2, padding=KERNEL // 2)
            grid = leaky_relu(convolved, SLOPE)
        features_NF = grid.flatten(1)
    by_label_N = (linear(features_NF, critic["classes"]) * onehot_NL).sum(dim=1)
    return linear(features_NF, critic["score"])[:, 0] + by_label_N


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
