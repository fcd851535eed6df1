"""One critic as a flat vector: what each example alone says of its parameters, and of its pixels.

Losses are the two halves of binary cross-entropy; the generator's is the non-saturating one. A row
of any result is a function of that row's image and label, of the place of the row, and of the
parameters: nothing is summed, averaged or normalised over rows. Slopes of a row are outer products
of what goes into a layer and the slope of what comes out, so no network is evaluated row by row.

Shape legend: N images, D pixels, L classes, P parameters, S places of a convolution, K values of a
patch, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, leaky_relu, linear, pad, softplus

from curator.divergences.adam import adam_step_in_place
from curator.divergences.critics import (
    KERNEL,
    SLOPE,
    CriticShape,
    Parameters,
    initial_critics,
    scores,
)

_BETAS = 0.5, 0.999  # as published


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CriticVector:
    """Parameters with Adam's moments, all of one length and on one device."""

    values: Tensor
    means: Tensor
    squares: Tensor
    num_updates: int

    @classmethod
    def start(cls, values: Tensor) -> CriticVector:
        """Return parameters that were never updated: float32, one after the other."""
        zeros = torch.zeros_like(values)
        return cls(values=values, means=zeros, squares=zeros, num_updates=0)

    def pack(self) -> dict[str, Tensor]:
        """Return everything as tensors of the processor."""
        return {
            "values": self.values.cpu(),
            "means": self.means.cpu(),
            "squares": self.squares.cpu(),
            "num_updates": torch.tensor([self.num_updates]),
        }

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], device: torch.device) -> CriticVector:
        """Return what was packed.

        Args:
            tensors: Of `pack`.
            device: Where to compute.
        """
        return cls(
            values=tensors["values"].to(device),
            means=tensors["means"].to(device),
            squares=tensors["squares"].to(device),
            num_updates=int(tensors["num_updates"]),
        )


def adam_step(critic: CriticVector, slope: Tensor, learning_rate: float) -> CriticVector:
    """Return the parameters after one step; those that were given are unchanged.

    References:
        [bie:23], whose decays these are.
    """
    turn = critic.num_updates + 1
    values, means, squares = parts = [
        {"": part.clone()} for part in (critic.values, critic.means, critic.squares)
    ]
    adam_step_in_place(learning_rate, _BETAS, turn, {"": slope}, parts)
    return CriticVector(values=values[""], means=means[""], squares=squares[""], num_updates=turn)


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

    Weights of a convolution have the channels that enter last: patches are copied in runs then.

    Args:
        shape: Its sizes.
        seed: Public seed.

    Returns:
        float32 values (P).
    """
    values = (value[0] for value in initial_critics(shape, 1, seed).values())
    return torch.cat(
        [(value.movedim(1, 3) if value.dim() == 4 else value).flatten() for value in values]
    )


def parameters_of(shape: CriticShape, vector_P: Tensor) -> Parameters:
    """Return the parameters that a vector holds, as views of it.

    Args:
        shape: Sizes of the critic.
        vector_P: All of them, one after the other, as `initial_vector` has them.
    """
    sizes = shape.sizes
    parts = torch.split(vector_P, [math.prod(size) for size in sizes.values()])
    parameters: Parameters = {}
    for (name, size), part in zip(sizes.items(), parts, strict=True):
        convolves = len(size) == 4
        stored = (size[0], *size[2:], size[1]) if convolves else size
        value = part.reshape(stored)
        parameters[name] = value.movedim(3, 1) if convolves else value
    return parameters


def example_slopes(shape: CriticShape, vector_P: Tensor, examples: Examples) -> list[Tensor]:
    """Return the gradient of each example's loss with respect to all parameters.

    Args:
        shape: Sizes of the critic.
        vector_P: Its parameters.
        examples: Whose loss is log(1 + exp(-score)) for records, and log(1 + exp(score)) else.

    Returns:
        One (N, n) for each entry of `shape.sizes`, in that order; together they are (N, P), in the
        order of `initial_vector`.
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


def share_recognised(shape: CriticShape, vector_P: Tensor, generated: Examples) -> float:
    """Return the share of generated images that a critic takes for what they are.

    Args:
        shape: Sizes of the critic.
        vector_P: Its parameters.
        generated: The images, at least one.

    Returns:
        A number in [0, 1]: how many have a score below zero.
    """
    critic = parameters_of(shape, vector_P.detach())
    scores_N = scores(shape, critic, generated.images_ND, generated.onehot_NL)
    return float((scores_N < 0).to(torch.float64).mean())


def in_chunks(num_rows: int, at_once: int) -> Iterator[slice]:
    """Yield the rows that are evaluated together."""
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
    around = KERNEL // 2
    padded = pad(entering.movedim(1, 3), (0, 0, around, around, around, around))
    patches = padded.unfold(1, KERNEL, _STRIDE).unfold(2, KERNEL, _STRIDE)
    patches_NSK = patches.permute(0, 1, 2, 4, 5, 3).flatten(1, 2).flatten(2)
    slope_NCS = slope.flatten(2)
    weights_NCK = torch.bmm(slope_NCS, patches_NSK)
    return weights_NCK.flatten(1), slope_NCS.sum(dim=2)
