"""The last layers of a generator on a processor: normalise, rectify, and convolve to few channels.

A convolution to one channel leaves most of a vector empty, and each of the layers passes over the
largest maps of the generator. Here the taps of the kernel are a matrix, so that the convolution is
a product and sums of shifted maps; the rectifier works in place, forward and backward. The numbers
are those of the three layers of torch but for rounding. They have first derivatives only.

Shapes: N rows, M maps, C channels, H height, W width, T = 9 C taps of the kernel, P = N H W pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn.functional import pad

_SIDE = 3  # of the kernel
_SHIFTS = [(y, x) for y in range(_SIDE) for x in range(_SIDE)]


def rectified_convolution(
    maps_NMHW: Tensor, norm: nn.BatchNorm2d, convolution: nn.Conv2d
) -> Tensor:
    """Return what `convolution(relu(norm(maps)))` is, [N, C, H, W].

    Args:
        maps_NMHW: With the channels innermost, else they are copied.
        norm: By the statistics of these rows, with a gain and a bias.
        convolution: 3 x 3 with a margin of one pixel and a bias.
    """
    channels_NCHW: Tensor = _RectifiedConvolution.apply(  # type: ignore[no-untyped-call]
        maps_NMHW, norm.weight, norm.bias, convolution.weight, convolution.bias, norm.eps
    )
    return channels_NCHW


class _RectifiedConvolution(torch.autograd.Function):
    """Keeps what came in and what the rectifier made of it."""

    @staticmethod
    def forward(  # noqa: PLR0913 - a layer's weights
        ctx: FunctionCtx,
        maps_NMHW: Tensor,
        gain_M: Tensor,
        bias_M: Tensor,
        kernel: Tensor,
        bias_C: Tensor,
        eps: float,
    ) -> Tensor:
        maps_NMHW = maps_NMHW.contiguous(memory_format=torch.channels_last)
        normal, means_M, scales_M = torch.native_batch_norm(
            maps_NMHW, gain_M, bias_M, None, None, training=True, momentum=0.0, eps=eps
        )
        rows_PM = _rows(normal.relu_())
        ctx.save_for_backward(maps_NMHW, gain_M, means_M, scales_M, kernel, rows_PM)
        ctx.eps = eps  # type: ignore[attr-defined]
        num_rows, _, height, width = maps_NMHW.shape
        taps = (_taps(kernel) @ rows_PM.T).view(-1, len(_SHIFTS), num_rows, height, width)
        channels = bias_C.view(-1, 1, 1, 1).repeat(1, num_rows, height + 2, width + 2)
        for index, (y, x) in enumerate(_SHIFTS):  # a tap at (y, x) sees the pixel at (1 - y, 1 - x)
            channels[:, :, 2 - y : 2 - y + height, 2 - x : 2 - x + width] += taps[:, index]
        return channels[:, :, 1:-1, 1:-1].transpose(0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slopes_NCHW: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        maps_NMHW, gain_M, means_M, scales_M, kernel, rows_PM = saved
        num_rows, num_maps, height, width = maps_NMHW.shape
        wide = pad(slopes_NCHW.transpose(0, 1), (1, 1, 1, 1))
        shifted_TP = torch.stack(
            [wide[:, :, 2 - y : 2 - y + height, 2 - x : 2 - x + width] for y, x in _SHIFTS], dim=1
        ).view(len(kernel) * len(_SHIFTS), -1)
        of_kernel = (shifted_TP @ rows_PM).view(len(kernel), _SIDE, _SIDE, num_maps)
        of_rows_PM = shifted_TP.T @ _taps(kernel)
        torch.ops.aten.threshold_backward(of_rows_PM, rows_PM, 0, grad_input=of_rows_PM)
        of_normal = of_rows_PM.view(num_rows, height, width, num_maps).permute(0, 3, 1, 2)
        of_maps, of_gain_M, of_bias_M = torch.ops.aten.native_batch_norm_backward(
            of_normal,
            maps_NMHW,
            gain_M,
            None,
            None,
            means_M,
            scales_M,
            train=True,
            eps=ctx.eps,  # type: ignore[attr-defined]
            output_mask=[True, True, True],
        )
        of_bias_C = slopes_NCHW.sum(dim=(0, 2, 3))
        return of_maps, of_gain_M, of_bias_M, of_kernel.permute(0, 3, 1, 2), of_bias_C, None


def _rows(maps_NMHW: Tensor) -> Tensor:
    """Return the maps of a pixel as a row [P, M], without a copy."""
    return maps_NMHW.permute(0, 2, 3, 1).flatten(0, 2)


def _taps(kernel: Tensor) -> Tensor:
    """Return the kernel as [T, M]."""
    return kernel.permute(0, 2, 3, 1).flatten(0, 2)
