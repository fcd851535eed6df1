"""One critic as a flat vector: what each example alone says of its parameters, and of its pixels.

Losses are the two halves of binary cross-entropy; the generator's is the non-saturating one. A row
of any result is a function of that row's image and label, of the place of the row, and of the
parameters: nothing is summed, averaged or normalised over rows. Slopes of a row are outer products
of what goes into a layer and the slope of what comes out, so no network is evaluated row by row.

Shape legend: N images, D pixels, L classes, P parameters, S places of a convolution, K
values of a patch, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, leaky_relu, linear, pad, softplus

from curator.divergences.critics import KERNEL, SLOPE, CriticShape, Parameters, initial_critics

_STRIDE = 2


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Examples:
    """Labelled images, all of them records or none."""

    images_ND: Tensor  # pixels in [-1, 1]
    onehot_NL: Tensor
    are_records: bool

    def some(self, rows: slice) -> Examples:
        """Return some of the rows."""
        return Examples(
            images_ND=self.images_ND[rows],
            onehot_NL=self.onehot_NL[rows],
            are_records=self.are_records,
        )


def initial_vector(shape: CriticShape, seed: int) -> Tensor:
    """Return the first parameters of one critic, in the order of `shape.sizes`.

    Args:
        shape: Its sizes.
        seed: Public seed.

    Returns:
        float32 values (P).
    """
    return torch.cat([value.flatten() for value in initial_critics(shape, 1, seed).values()])


def parameters_of(shape: CriticShape, vector_P: Tensor) -> Parameters:
    """Return the parameters that a vector holds, as views of it.

    Args:
        shape: Sizes of the critic.
        vector_P: All of them, one after the other.
    """
    sizes = shape.sizes
    parts = torch.split(vector_P, [math.prod(size) for size in sizes.values()])
    return {
        name: part.reshape(size) for (name, size), part in zip(sizes.items(), parts, strict=True)
    }


def example_slopes(shape: CriticShape, vector_P: Tensor, examples: Examples) -> list[Tensor]:
    """Return the gradient of each example's loss with respect to all parameters.

    Args:
        shape: Sizes of the critic.
        vector_P: Its parameters.
        examples: Whose loss is log(1 + exp(-score)) for records, and log(1 + exp(score)) else.

    Returns:
        One (N, n) for each entry of `shape.sizes`, in that order; together they are (N, P).
    """
    critic = parameters_of(shape, vector_P.detach())
    with torch.enable_grad():
        inputs, outputs, scores_N = _forward(shape, critic, examples.images_ND, examples.onehot_NL)
        signed_N = -scores_N if examples.are_records else scores_N
        slopes = torch.autograd.grad(softplus(signed_N).sum(), [*outputs, scores_N])
    parts: list[Tensor] = []
    for entering, slope in zip(inputs[:-1], slopes[:-1], strict=True):
        parts.extend(_layer_slopes(shape, entering.detach(), slope))
    features_NF, slope_N1 = inputs[-1].detach(), slopes[-1].unsqueeze(1)
    by_class_NL = slope_N1 * examples.onehot_NL
    parts.append(slope_N1 * features_NF)
    parts.append((by_class_NL.unsqueeze(2) * features_NF.unsqueeze(1)).flatten(1))
    return parts


def image_slopes(
    shape: CriticShape, vector_P: Tensor, images_ND: Tensor, onehot_NL: Tensor
) -> Tensor:
    """Return the gradient of the generator's loss with respect to the images.

    Args:
        shape: Sizes of the critic.
        vector_P: Its parameters.
        images_ND: Generated images.
        onehot_NL: Their labels.

    Returns:
        (N, D): of mean log(1 + exp(-score)).

    References:
        [goodfellow:14], section 3.
    """
    critic = parameters_of(shape, vector_P.detach())
    images_ND = images_ND.detach().requires_grad_()
    with torch.enable_grad():
        _, _, scores_N = _forward(shape, critic, images_ND, onehot_NL)
        loss = softplus(-scores_N).mean()
    (slopes_ND,) = torch.autograd.grad(loss, images_ND)
    return slopes_ND


def in_chunks(num_rows: int, at_once: int) -> Iterator[slice]:
    """Yield the rows that are evaluated together.

    Args:
        num_rows: N.
        at_once: Most of them.
    """
    for start in range(0, num_rows, at_once):
        yield slice(start, min(start + at_once, num_rows))


def _forward(
    shape: CriticShape, critic: Parameters, images_ND: Tensor, onehot_NL: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Return what enters each layer and the head, what leaves each layer, and the scores.

    The first output gets a gradient of its own, so that slopes reach it from the scores.
    """
    convolves = shape.kind == "conv"
    grid = (-1, shape.channels, shape.height, shape.pixels_per_row)
    value = images_ND.reshape(grid) if convolves else images_ND
    inputs, outputs = [], []
    for number in range(3 if convolves else 2):
        weight, bias = critic[f"weight{number}"], critic[f"bias{number}"]
        inputs.append(value)
        if convolves:
            value = conv2d(value, weight, bias, stride=_STRIDE, padding=KERNEL // 2)
        else:
            value = linear(value, weight, bias)
        if not value.requires_grad:
            value.requires_grad_()
        outputs.append(value)
        value = leaky_relu(value, SLOPE)
    features_NF = value.flatten(1)
    by_class_N = (linear(features_NF, critic["classes"]) * onehot_NL).sum(dim=1)
    scores_N = linear(features_NF, critic["score"])[:, 0] + by_class_N
    return [*inputs, features_NF], outputs, scores_N


def _layer_slopes(shape: CriticShape, entering: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slopes of a layer's weights and biases, example by example."""
    if shape.kind == "mlp":
        return (slope.unsqueeze(2) * entering.unsqueeze(1)).flatten(1), slope
    padded = pad(entering, (KERNEL // 2,) * 4)  # one copy for all rows, where im2col takes one each
    patches = padded.unfold(2, KERNEL, _STRIDE).unfold(3, KERNEL, _STRIDE)
    patches_NSK = patches.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)
    slope_NCS = slope.flatten(2)
    weights_NCK = torch.bmm(slope_NCS, patches_NSK)
    return weights_NCK.flatten(1), slope_NCS.sum(dim=2)
