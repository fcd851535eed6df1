"""One layer of many critics: what it puts out, and both transposes, as a few large products.

Tensors are (K, M, ...) whatever lies beside what in memory, so layers change nothing when rows are
cut or scaled. Critic k's part of a product is made of critic k's weights and rows alone.

Shape legend: K critics, M rows of each, J inputs and O outputs, C channels in, H x W pixels in.
"""

from __future__ import annotations

from typing import Protocol, final

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad
from torch.nn.grad import conv2d_input, conv2d_weight

from curator.divergences.critics import KERNEL

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
