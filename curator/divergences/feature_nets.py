"""Feature extractors of named architectures, computed in exact integers on weights that came in.

Weights and activations are rounded to public grids and bounded, so that every sum of products is an
integer below 2^53: exact in float64, in any order, in batches of any size, whoever else is in them.
Nothing can overflow, become NaN or be a subnormal number, whatever the weights are, so neither the
features of a record nor the time that they take depend on its companions, and no weights make the
arithmetic slower for some records than for others. The analyst's own implementation is in floats;
`tests/unit/analyst/adaptation/test_networks.py` holds the two together.

Shape legend: M records, P pixels, F features, C channels, G places of a window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, unfold

Architecture = Literal["lenet-features", "mlp-features", "cnn-features"]

LARGEST_WEIGHT: Final = 16.0
WEIGHT_STEP: Final = 2.0**-14
ACTIVATION_STEP: Final = 2.0**-12
LARGEST_ACTIVATION: Final = 512.0
ROW_RADIUS: Final = 1 << 12
"""The norm to which rows are clipped, in units of their grid."""

MAX_FEATURES: Final = 1 << 10
_MAX_FAN_IN: Final = 1 << 13  # 2^18 2^21 2^13 = 2^52 leaves room for a bias
_MAX_PIXELS: Final = 1 << 18
_MAX_PARAMETERS: Final = 1 << 22
_LARGEST_ENTRY: Final = 8 * ROW_RADIUS  # of a row; longer ones are clipped anyway
_CHUNK_ENTRIES: Final = 1 << 22

_KERNELS: Final = {"lenet-features": 5, "cnn-features": 3}
_CHANNELS: Final = {"lenet-features": (6, 16), "cnn-features": (32, 64)}
_HIDDEN: Final = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureShape:
    """Sizes of one extractor; all of them are public.

    `lenet-features` is two 5x5 convolutions with 6 and 16 channels, each followed by a rectifier
    and pooling of 2x2, and a linear layer; `cnn-features` is the same of 3x3 with 32 and 64
    channels; `mlp-features` is a hidden layer of 256 with a rectifier, and a linear layer. Pixels
    are in [-1, 1], and convolutions are padded with 0.
    """

    architecture: Architecture
    channels: int
    height: int
    width: int
    max_level: int
    num_features: int

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: If sums of products might be inexact, or the extractor is absurdly large.
        """
        if not 1 <= self.num_features <= MAX_FEATURES:
            msg = f"num_features must be in 1 to {MAX_FEATURES}"
            raise ValueError(msg)
        if self.architecture in _KERNELS and min(self.height, self.width) < 4:
            msg = f"{self.architecture} needs images of at least 4x4"
            raise ValueError(msg)
        fan_ins = [math.prod(size[1:]) for size in self.sizes.values() if len(size) > 1]
        first = math.prod(next(iter(self.sizes.values())))
        is_wide = fan_ins[0] > _MAX_PIXELS or max(fan_ins[1:]) > _MAX_FAN_IN
        if is_wide or first > _MAX_PARAMETERS:
            msg = f"images are too large for {self.architecture}"
            raise ValueError(msg)
        if self.num_parameters > _MAX_PARAMETERS:
            msg = f"num_features: {self.architecture} would have too many weights"
            raise ValueError(msg)

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight by its name."""
        if self.architecture == "mlp-features":
            layers: dict[str, tuple[int, ...]] = {
                "hidden": (_HIDDEN, self.channels * self.height * self.width),
                "features": (self.num_features, _HIDDEN),
            }
        else:
            places = (self.height // 4) * (self.width // 4)
            (first, second), side = _CHANNELS[self.architecture], _KERNELS[self.architecture]
            layers = {
                "conv1": (first, self.channels, side, side),
                "conv2": (second, first, side, side),
                "features": (self.num_features, second * places),
            }
        parts = ((name, size) for name, size in layers.items())
        return {
            f"{name}.{part}": of
            for name, size in parts
            for part, of in (("weight", size), ("bias", size[:1]))
        }

    @property
    def num_parameters(self) -> int:
        """Number of values of all weights."""
        return sum(math.prod(size) for size in self.sizes.values())

    @property
    def multiplications(self) -> int:
        """Multiplications for one record: how much work an extractor is."""
        if self.architecture == "mlp-features":
            return self.num_parameters
        places = self.height * self.width
        conv1, conv2 = self.sizes["conv1.weight"], self.sizes["conv2.weight"]
        rest = math.prod(self.sizes["features.weight"])
        return math.prod(conv1) * places + math.prod(conv2) * places // 4 + rest


def feature_rows(
    shape: FeatureShape, weights: Mapping[str, Tensor], levels_MP: Tensor, clip_norm: float
) -> Tensor:
    """Return the features of records as rows of integers.

    Args:
        shape: Sizes.
        weights: By name, of these sizes; finite, at most `LARGEST_WEIGHT` in size.
        levels_MP: Stored pixel levels.
        clip_norm: What `ROW_RADIUS` stands for.

    Returns:
        float64 integers [M, F] in units of clip_norm / ROW_RADIUS, at most 8 ROW_RADIUS each.

    Privacy:
        Row i is a function of record i and the weights alone, bit for bit.
    """
    whole = {name: _on_grid(value, WEIGHT_STEP) for name, value in weights.items()}
    per_window = min(_CHANNELS.get(shape.architecture, _CHANNELS["lenet-features"]))
    per_record = max(shape.multiplications // per_window, 1)
    parts = [
        _rows(shape, whole, chunk, clip_norm)
        for chunk in torch.split(levels_MP, max(1, _CHUNK_ENTRIES // per_record))
    ]
    return torch.cat(parts)


def _rows(
    shape: FeatureShape, whole: Mapping[str, Tensor], levels_MP: Tensor, clip_norm: float
) -> Tensor:
    """Return the rows of one chunk."""
    values = levels_MP.to(torch.float64) * 2 - shape.max_level
    unit = 1.0 / shape.max_level
    if shape.architecture == "mlp-features":
        hidden = _affine(values, whole, "hidden", unit)
        values = _rectified(hidden, WEIGHT_STEP * unit)
    else:
        values = values.reshape(-1, shape.channels, shape.height, shape.width)
        for name in ("conv1", "conv2"):
            sums = _convolved(values, whole, name, unit)
            values = max_pool2d(_rectified(sums, WEIGHT_STEP * unit), 2)
            unit = ACTIVATION_STEP
        values = values.flatten(1)
    sums = _affine(values, whole, "features", ACTIVATION_STEP)
    rows_MF = torch.trunc(sums * (WEIGHT_STEP * ACTIVATION_STEP * ROW_RADIUS / clip_norm))
    return rows_MF.clamp(-_LARGEST_ENTRY, _LARGEST_ENTRY)


def _on_grid(values: Tensor, step: float) -> Tensor:
    """Return the nearest multiples of a step, as integers in float64."""
    return torch.round(values.to(torch.float64) / step)


def _affine(values: Tensor, whole: Mapping[str, Tensor], name: str, unit: float) -> Tensor:
    """Return exact sums in units of WEIGHT_STEP times `unit`; `values` are in units of `unit`."""
    bias = _on_grid(whole[f"{name}.bias"], unit)
    return values @ whole[f"{name}.weight"].T + bias


def _convolved(values: Tensor, whole: Mapping[str, Tensor], name: str, unit: float) -> Tensor:
    """Return the exact sums of a padded convolution, likewise: windows times weights."""
    weight, (height, width) = whole[f"{name}.weight"], values.shape[2:]
    side = weight.shape[-1]
    windows_MCG = unfold(values, side, padding=side // 2)
    bias_C1 = _on_grid(whole[f"{name}.bias"], unit).unsqueeze(1)
    sums_MCG = weight.flatten(1) @ windows_MCG + bias_C1
    return sums_MCG.reshape(len(values), -1, height, width)


def _rectified(sums: Tensor, unit: float) -> Tensor:
    """Return activations on their grid, from 0 to the largest."""
    scaled = sums * (unit / ACTIVATION_STEP)
    return torch.trunc(scaled.clamp(0, LARGEST_ACTIVATION / ACTIVATION_STEP))
