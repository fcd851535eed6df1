"""The released autoencoder: named weights of one architecture, and codes of images under them.

What is downloaded are numbers; the layers are written here, and share no code with the curator's. A
test holds both together.

Shapes: N images, D pixels, E entries of a code, K classes, R features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, linear, softsign

from analyst.generators.generator import ImageShape

_SLOPE = 0.2


def split_release(
    values: Tensor, parameters: Mapping[str, Any], shape: ImageShape
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the weights of the autoencoder, and the class-wise sums.

    Args:
        values: The release: rows of weights padded with zeros, then one row of sums for each class.
        parameters: Of the mechanism, as the curator keeps them.
        shape: Public facts of the data set.

    Returns:
        float32 weights by name, and float64 sums [K, R + 1].

    Raises:
        ValueError: If there are too few weights for the architecture.
    """
    pixels = shape.channels * shape.height * shape.width
    hidden, code = parameters["hidden_width"], parameters["code_width"]
    sizes: dict[str, tuple[int, ...]] = {}
    for name, inputs, outputs in (
        ("encoder.hidden", pixels, hidden),
        ("encoder.code", hidden, code),
        ("decoder.hidden", code, hidden),
        ("decoder.pixels", hidden, pixels),
    ):
        sizes[f"{name}.weight"], sizes[f"{name}.bias"] = (outputs, inputs), (outputs,)
    flat = values[: -shape.num_classes].flatten().float()
    lengths = [math.prod(size) for size in sizes.values()]
    if len(flat) < sum(lengths):
        msg = "the release holds fewer weights than its architecture has"
        raise ValueError(msg)
    parts = torch.split(flat[: sum(lengths)], lengths)
    weights = {
        name: part.reshape(size).clone()
        for (name, size), part in zip(sizes.items(), parts, strict=True)
    }
    return weights, values[-shape.num_classes :].clone()


def encode(weights: Mapping[str, Tensor], images_NCHW: Tensor) -> Tensor:
    """Return codes [N, E] in (-1, 1); differentiable."""

    def layer(name: str, inputs: Tensor) -> Tensor:
        weight, bias = (weights[f"encoder.{name}.{kind}"].to(inputs) for kind in ("weight", "bias"))
        return linear(inputs, weight, bias)

    hidden = leaky_relu(layer("hidden", images_NCHW.flatten(1)), _SLOPE)
    return softsign(layer("code", hidden))
