"""A small autoencoder as a flat vector: what each example alone says of its parameters.

The named architecture `mlp` has two layers on each side: leaky hidden units, a code of softsign
units (so a code is in (-1, 1), by additions and one division), and tanh pixels. The loss of an
example is the squared error of its pixels. A row of any result is a function of that row's image
and of the parameters: nothing is summed, averaged or normalised over rows.

Of a released encoder, random Fourier features of the codes are computed in exact arithmetic for
records: a record's row must not depend, in any bit, on its companions. The encoder's weights are
integers on a public grid; so are pixels, hidden units and codes, which are rounded down one by one.
Every sum of products is then an integer below 2^53, exact in float64 in any order, and all else (a
leaky unit, a softsign, one floor each) is elementwise arithmetic of IEEE 754.

Shape legend: N images or samples, D pixels, H hidden units, E entries of a code, P parameters,
M records, R features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, linear, softsign

from curator.divergences.critics import SLOPE, Parameters, public_uniforms
from curator.divergences.device import compute_device
from curator.divergences.random_features import FourierFeatures

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


MAX_PIXELS: Final = 1 << 20  # levels below 2^16, weights below 2^16: sums stay below 2^52
MAX_HIDDEN: Final = 1 << 12  # units at most 2^22, weights below 2^16: sums stay below 2^50
CODE_GRID: Final = 2.0**-12
LARGEST_CODE: Final = 2.0**12  # on the grid
_HIDDEN_GRID: Final = 2.0**-12
_LARGEST_HIDDEN: Final = 2.0**22


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class EncoderFeatures:
    """Frequencies meet the codes of an encoder whose weights are public and on their grid."""

    fourier: FourierFeatures
    encoder: Parameters
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Levels, hidden units and codes are integers; row i is a function of record i alone.
        """
        return self.fourier.exact_rows(self.record_codes(levels_MD), CODE_GRID)

    def record_codes(self, levels_MD: Tensor) -> Tensor:
        """Return codes of stored levels as integers on their grid, at most 2^12 in size.

        Privacy:
            Row i is a function of record i alone, bit for bit.
        """
        centred_MD = levels_MD.to(compute_device(), torch.float64) * 2 - self.max_level
        before_MH = self._exact_layer("encoder.hidden", centred_MD, 1 / self.max_level)
        leaky_MH = torch.maximum(before_MH, before_MH * SLOPE)  # torch.where branches on values
        hidden_MH = torch.floor(leaky_MH / _HIDDEN_GRID).clamp(-_LARGEST_HIDDEN, _LARGEST_HIDDEN)
        before_ME = self._exact_layer("encoder.code", hidden_MH, _HIDDEN_GRID)
        return torch.floor(before_ME / (before_ME.abs() + 1) / CODE_GRID)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        parameters = {name: value.to(images_ND) for name, value in self.encoder.items()}
        return self.fourier.rows(encode(parameters, images_ND))

    def _exact_layer(self, name: str, integers: Tensor, unit: float) -> Tensor:
        """Return a layer's outputs for inputs that are integers times a unit."""
        weights = self.encoder[f"{name}.weight"].to(integers) / WEIGHT_GRID
        return (integers @ weights.T) * (WEIGHT_GRID * unit) + self.encoder[f"{name}.bias"].to(
            integers
        )
