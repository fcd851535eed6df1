"""A small autoencoder as a flat vector: what each example alone says of its parameters.

The named architecture `mlp` has two layers on each side: leaky hidden units, a code of softsign
units (so a code is in (-1, 1), by additions and one division), and tanh pixels. The loss of an
example is the squared error of its pixels. A row of any result is a function of that row's image
and of the parameters: nothing is summed, averaged or normalised over rows.

Shape legend: N images, D pixels, H hidden units, E entries of a code, P parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, linear, softsign

from curator.divergences.critics import SLOPE, Parameters, public_uniforms

WEIGHT_GRID = 2.0**-12
LARGEST_WEIGHT = 2.0**16 - 1  # on the grid
_LAYERS = ("encoder.hidden", "encoder.code", "decoder.hidden", "decoder.pixels")


@dataclass(frozen=True, kw_only=True, slots=True)
class AutoencoderShape:
    """Sizes of one autoencoder; all of them are public."""

    dimension: int
    hidden_width: int
    code_width: int

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter, in the order in which the vector holds them."""
        wide = (self.dimension, self.hidden_width, self.code_width)
        ends = ((wide[0], wide[1]), (wide[1], wide[2]), (wide[2], wide[1]), (wide[1], wide[0]))
        sizes: dict[str, tuple[int, ...]] = {}
        for layer, (inputs, outputs) in zip(_LAYERS, ends, strict=True):
            sizes[f"{layer}.weight"] = (outputs, inputs)
            sizes[f"{layer}.bias"] = (outputs,)
        return sizes

    @property
    def num_parameters(self) -> int:
        """Number of values P."""
        return sum(math.prod(size) for size in self.sizes.values())


def initial_autoencoder(shape: AutoencoderShape, seed: int) -> Tensor:
    """Return the first parameters: uniform weights of variance 1 / fan-in, and biases of zero.

    Args:
        shape: Sizes.
        seed: Public seed.

    Returns:
        float32 values (P).
    """
    drawn = public_uniforms(seed, "autoencoder", shape.num_parameters)
    parts = torch.split(2 * drawn - 1, [math.prod(size) for size in shape.sizes.values()])
    scales = [math.sqrt(3 / size[1]) if len(size) > 1 else 0.0 for size in shape.sizes.values()]
    scaled = [part * scale for part, scale in zip(parts, scales, strict=True)]
    return torch.cat(scaled).to(torch.float32)


def autoencoder_parameters(shape: AutoencoderShape, vector_P: Tensor) -> Parameters:
    """Return the parameters that a vector holds, as views of it.

    Args:
        shape: Sizes.
        vector_P: All of them, one after the other.
    """
    parts = torch.split(vector_P, [math.prod(size) for size in shape.sizes.values()])
    pairs = zip(shape.sizes.items(), parts, strict=True)
    return {name: part.reshape(size) for (name, size), part in pairs}


def on_grid(vector_P: Tensor) -> Tensor:
    """Return parameters rounded to multiples of 2^-12 below 16 in size; not a number becomes zero.

    Args:
        vector_P: float32.

    Returns:
        float32 values, exact on the grid.
    """
    points = torch.nan_to_num(vector_P.to(torch.float64) / WEIGHT_GRID, nan=0.0).round()
    return (points.clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT) * WEIGHT_GRID).to(torch.float32)


def encode(parameters: Parameters, images_ND: Tensor) -> Tensor:
    """Return codes (N, E) in (-1, 1) in ordinary floating point; differentiable.

    Args:
        parameters: Of the autoencoder.
        images_ND: Pixels in [-1, 1].
    """
    hidden_NH = leaky_relu(_layer(parameters, "encoder.hidden", images_ND), SLOPE)
    return softsign(_layer(parameters, "encoder.code", hidden_NH))


def example_slopes(shape: AutoencoderShape, vector_P: Tensor, images_ND: Tensor) -> list[Tensor]:
    """Return the gradient of each example's squared error with respect to all parameters.

    A layer's gradient is the outer product of what goes into it and the slope of what comes out, so
    no network is evaluated row by row.

    Args:
        shape: Sizes.
        vector_P: Parameters.
        images_ND: Pixels in [-1, 1].

    Returns:
        One (N, n) for each entry of `shape.sizes`, in that order; together they are (N, P).
    """
    parameters = autoencoder_parameters(shape, vector_P.detach())
    value, inputs, outputs = images_ND.detach(), [], []
    with torch.enable_grad():
        for layer in _LAYERS:
            inputs.append(value)
            outputs.append(_layer(parameters, layer, value))
            if not outputs[-1].requires_grad:
                outputs[-1].requires_grad_()
            value = _ACTIVATIONS[layer](outputs[-1])
        slopes = torch.autograd.grad((value - images_ND).square().sum(), outputs)
    parts: list[Tensor] = []
    for entering, slope in zip(inputs, slopes, strict=True):
        parts += [(slope.unsqueeze(2) * entering.detach().unsqueeze(1)).flatten(1), slope]
    return parts


def _leaky(values: Tensor) -> Tensor:
    return leaky_relu(values, SLOPE)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = dict(
    zip(_LAYERS, (_leaky, softsign, _leaky, torch.tanh), strict=True)
)


def _layer(parameters: Parameters, name: str, inputs: Tensor) -> Tensor:
    return linear(inputs, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
