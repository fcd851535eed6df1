"""Scores of many critics and their slopes, without a graph: all that is not linear is a sign.

Scores are piecewise linear in the images. So slopes, and slopes of slopes, are the same few
products with the signs of the first pass held, and nothing is computed twice.

Shape legend: K critics, M rows of each, F features, D pixels, L classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from curator.divergences.critics import SLOPE, CriticShape, Parameters
from curator.divergences.ensemble_layers import CONVOLUTIONS, Dense, Layer


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Passed:
    """What scoring left: each layer's inputs and the slopes of its outputs, all (K, M, ...)."""

    inputs: list[Tensor]
    signs: list[Tensor]
    features_KMF: Tensor


@final
class EnsemblePass:
    """The layers of some critics, ready to be multiplied with."""

    def __init__(self, shape: CriticShape, critics: Parameters) -> None:
        """Take the layers."""
        self._critics = critics
        self._image: tuple[int, ...] = (shape.dimension,)
        self._end: tuple[int, ...] = (-1,)
        self.layers: list[Layer] = []
        if shape.kind == "mlp":
            self.layers = [Dense(critics[f"weight{number}"]) for number in range(2)]
            return
        height, width = shape.height, shape.pixels_per_row
        self._image = (shape.channels, height, width)
        for number in range(3):
            weight = critics[f"weight{number}"]
            self.layers.append(CONVOLUTIONS[weight.device.type](weight, height, width))
            height, width = (height + 1) // 2, (width + 1) // 2
        self._end = (-1, height, width)

    def forward(self, images_KMD: Tensor) -> Passed:
        """Return the features of images, and what their slopes need."""
        inputs, signs = [], []
        values = torch.unflatten(images_KMD, 2, self._image)
        for number, layer in enumerate(self.layers):
            inputs.append(values)
            made = layer.forward(values, self._critics[f"bias{number}"])
            signs.append(torch.where(made > 0, made.new_ones(()), made.new_full((), SLOPE)))
            values = made * signs[-1]
        return Passed(inputs=inputs, signs=signs, features_KMF=values.flatten(2))

    def tops(self, onehot_KML: Tensor) -> Tensor:
        """Return the slope of a score in its features: (K, M, F)."""
        return torch.baddbmm(self._critics["score"], onehot_KML, self._critics["classes"])

    def backward(self, passed: Passed, tops_KMF: Tensor) -> list[Tensor]:
        """Return the slope of each row's score in what every layer puts out."""
        slopes = [torch.unflatten(tops_KMF, 2, self._end) * passed.signs[-1]]
        for layer, signs in zip(self.layers[:0:-1], passed.signs[-2::-1], strict=True):
            slopes.insert(0, layer.back(slopes[0]) * signs)
        return slopes

    def to_images(self, first_slopes: Tensor) -> Tensor:
        """Return slopes in the images: (K, M, D)."""
        return self.layers[0].back(first_slopes).flatten(2)

    def tangent(self, signs: list[Tensor], directions_KMD: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the inputs of each layer, and the features, that directions of images make."""
        inputs = []
        values = torch.unflatten(directions_KMD, 2, self._image)
        for layer, held in zip(self.layers, signs, strict=True):
            inputs.append(values)
            values = layer.forward(values, None) * held
        return inputs, values.flatten(2)
