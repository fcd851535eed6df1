"""The curator's named feature maps, from the parameters of a run and the shape of its images.

Shapes: N images, C channels, H height, W width, R features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from analyst.embedding.fourier import FourierFeatures
from analyst.embedding.scattering import num_coefficients, scattering
from analyst.generators.generator import ImageShape

FeatureMap = Callable[[Tensor], Tensor]
"""From images [N, C, H, W] in [-1, 1] to rows [N, R] of norm 1."""

_SCATTERING_STREAM = 32


def feature_map(parameters: Mapping[str, Any], shape: ImageShape) -> FeatureMap:
    """Return the map that a run of the mechanism `mean-embedding` was opened with.

    Returns:
        The map; scattering first where there are both. Of `dp-merf-ae` the map of codes [N, E].
    """
    if "code_width" in parameters:
        return FourierFeatures(
            parameters["code_width"],
            parameters["num_features"],
            parameters["bandwidths"],
            seed=parameters["feature_seed"],
            stream=0,
        )
    seed, name = parameters["feature_seed"], parameters["feature_map"]
    share = {"rff": 0.0, "scattering-rff": 1.0, "mix": parameters["scattering_share"]}[name]
    parts: list[FeatureMap] = []
    if share > 0:
        waves = FourierFeatures(
            num_coefficients(shape.channels, shape.height, shape.width),
            parameters["num_scattering_features"],
            parameters["scattering_bandwidths"],
            seed=seed,
            stream=_SCATTERING_STREAM,
        )
        parts.append(lambda images: waves(scattering(images)) * math.sqrt(share))
    if share < 1:
        pixels = FourierFeatures(
            shape.channels * shape.height * shape.width,
            parameters["num_features"],
            parameters["bandwidths"],
            seed=seed,
            stream=0,
        )
        parts.append(lambda images: pixels(images.flatten(1)) * math.sqrt(1 - share))
    return lambda images: torch.cat([part(images) for part in parts], dim=1)
