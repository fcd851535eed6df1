"""Layers, scores and slopes of many critics as a few large products, without a graph.

Tensors are (K, M, ...) whatever lies beside what in memory, so layers change nothing when rows are
cut or scaled. Critic k's part of a product is made of critic k's weights and rows alone.

Scores are piecewise linear in the images. So slopes, and slopes of slopes, are the same few
products with the signs of the first pass held, and nothing is computed twice.

Shape legend: K critics, M rows of each, J inputs and O outputs, C channels in, H x W pixels in, F
features, D pixels, L classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad
from torch.nn.grad import conv2d_input, conv2d_weight

from curator.divergences.critics import KERNEL, SLOPE, CriticShape, Parameters

_EDGE = KERNEL // 2
_STRIDE = 2


class Layer(Protocol):
    """A linear layer of K critics."""

    def forward(self, values: Tensor, bias_KO: Tensor | None) -> Tensor:
        """Return the outputs."""
        ...

    def back(self, slopes: Tensor) -> Tensor:
        """Return slopes in the inputs, from slopes in the outputs."""
        ...

    def weight_slopes(self, slopes: Tensor, values: Tensor) -> Tensor:
        """Return slopes in the weights, summed over each critic's rows."""
        ...


@final
class Dense:
    """(K, M, J) to (K, M, O)."""

    def __init__(self, weight_KOJ: Tensor) -> None:
        """Take the weights."""
        self._weight = weight_KOJ

    def forward(self, values: Tensor, bias_KO: Tensor | None) -> Tensor:
        """See `Layer`."""
        turned = self._weight.transpose(1, 2)
        if bias_KO is None:
            return torch.bmm(values, turned)
        return torch.baddbmm(bias_KO.unsqueeze(1), values, turned)

    def back(self, slopes: Tensor) -> Tensor:
        """See `Layer`."""
        return torch.bmm(slopes, self._weight)

    def weight_slopes(self, slopes: Tensor, values: Tensor) -> Tensor:
        """See `Layer`."""
        return torch.bmm(slopes.transpose(1, 2), values)


@final
class GroupedConvolution:
    """(K, M, C, H, W) to half the pixels, a group of one convolution for each critic.

    The processor's choice. Memory holds (M, K C, H, W).
    """

    def __init__(self, weight: Tensor, height: int, width: int) -> None:
        """Take the weights, (K, O, C, 5, 5), and the size of the inputs."""
        self._groups, self._outputs, self._channels = weight.shape[:3]
        self._weight = weight.flatten(0, 1)
        self._size = height, width

    def forward(self, values: Tensor, bias_KO: Tensor | None) -> Tensor:
        """See `Layer`."""
        bias = None if bias_KO is None else bias_KO.flatten()
        made = conv2d(_grouped(values), self._weight, bias, _STRIDE, _EDGE, groups=self._groups)
        return self._apart(made)

    def back(self, slopes: Tensor) -> Tensor:
        """See `Layer`."""
        size = (slopes.shape[1], self._groups * self._channels, *self._size)
        made = conv2d_input(  # type: ignore[no-untyped-call]
            size, self._weight, _grouped(slopes), _STRIDE, _EDGE, groups=self._groups
        )
        return self._apart(made)

    def weight_slopes(self, slopes: Tensor, values: Tensor) -> Tensor:
        """See `Layer`."""
        size, groups = list(self._weight.shape), self._groups
        made = conv2d_weight(  # type: ignore[no-untyped-call]
            _grouped(values), size, _grouped(slopes), _STRIDE, _EDGE, groups=groups
        )
        return torch.unflatten(made, 0, (groups, self._outputs))

    def _apart(self, values: Tensor) -> Tensor:
        return torch.unflatten(values, 1, (self._groups, -1)).transpose(0, 1)


@final
class PatchedConvolution:
    """(K, M, C, H, W) to half the pixels, as a product of patches with a matrix of each critic.

    A graphics card's choice. Memory holds (K, M, H, W, C).
    """

    def __init__(self, weight: Tensor, height: int, width: int) -> None:
        """Take the weights, (K, O, C, 5, 5), and the size of the inputs."""
        self._shape = weight.shape
        self._weight_KOJ = weight.permute(0, 1, 3, 4, 2).flatten(2)
        self._size = height, width
        self._after = (height + 1) // 2, (width + 1) // 2

    def forward(self, values: Tensor, bias_KO: Tensor | None) -> Tensor:
        """See `Layer`."""
        made = Dense(self._weight_KOJ).forward(self._patches(values), bias_KO)
        return self._apart(made, self._after)

    def back(self, slopes: Tensor) -> Tensor:
        """See `Layer`."""
        num_critics, num_rows = slopes.shape[:2]
        height, width = self._size
        wide = torch.bmm(_places(slopes), self._weight_KOJ)
        patches = wide.reshape(num_critics, num_rows, *self._after, KERNEL, KERNEL, -1)
        size = (num_critics, num_rows, height + KERNEL, width + KERNEL, self._shape[2])
        padded = slopes.new_zeros(size)
        rows, places = (_STRIDE * count for count in self._after)
        for i in range(KERNEL):
            for j in range(KERNEL):
                reached = padded[:, :, i : i + rows : _STRIDE, j : j + places : _STRIDE]
                reached += patches[:, :, :, :, i, j]
        inside = padded[:, :, _EDGE : _EDGE + height, _EDGE : _EDGE + width]
        return inside.permute(0, 1, 4, 2, 3)

    def weight_slopes(self, slopes: Tensor, values: Tensor) -> Tensor:
        """See `Layer`."""
        found_KOJ = torch.bmm(_places(slopes).transpose(1, 2), self._patches(values))
        found = torch.unflatten(found_KOJ, 2, (KERNEL, KERNEL, -1))
        return found.permute(0, 1, 4, 2, 3)

    def _patches(self, values: Tensor) -> Tensor:
        """Return (K, M P, J): what each of P places of the output sees."""
        grid = values.permute(0, 1, 3, 4, 2)
        padded = pad(grid, (0, 0, _EDGE, _EDGE, _EDGE, _EDGE))
        views = padded.unfold(2, KERNEL, _STRIDE).unfold(3, KERNEL, _STRIDE)
        return views.permute(0, 1, 2, 3, 5, 6, 4).flatten(4).flatten(1, 3)

    def _apart(self, values: Tensor, size: tuple[int, int]) -> Tensor:
        return values.reshape(len(values), -1, *size, values.shape[2]).permute(0, 1, 4, 2, 3)


def _grouped(values: Tensor) -> Tensor:
    """Return (K, M, C, H, W) as (M, K C, H, W)."""
    return values.transpose(0, 1).flatten(1, 2)


def _places(values: Tensor) -> Tensor:
    """Return (K, M, C, H, W) as (K, M H W, C)."""
    return values.permute(0, 1, 3, 4, 2).flatten(1, 3)


CONVOLUTIONS: dict[str, type[GroupedConvolution | PatchedConvolution]] = {
    "cpu": GroupedConvolution,
    "cuda": PatchedConvolution,
}
"""By kind of device, the one that is faster there."""


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
            signs.append((made > 0).to(made.dtype).clamp_(min=SLOPE))  # torch.where branches
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
