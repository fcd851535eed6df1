"""Features of named networks, computed in exact numbers on weights that came in.

Weights and activations are rounded to public grids and bounded, so that every sum of products is a
multiple of a power of two with less than 53 bits: exact in float64, in any order, in batches of any
size, whoever else is in them. Nothing can overflow, become NaN or be a subnormal number, whatever
the weights are, so neither the features of a record nor the time that they take depend on its
companions, and no weights make the arithmetic slower for some records than for others. The same
layers answer public images in floats, so that gradients flow. The analyst's own implementations
share no code with it; `tests/unit/analyst/adaptation/test_networks.py` and
`tests/unit/analyst/test_network_features.py` hold them together.

Shape legend: M records, N public images, P pixels, F features, C channels, G places of a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d, pad, unfold

from curator.divergences.architectures import (
    Block,
    Convolution,
    NetworkPlan,
    PublicArchitecture,
    Rectifier,
    plan_of,
)
from curator.divergences.exact_functions import (
    LARGEST_ACTIVATION,
    MAX_TOKENS,
    SCALE_STEP,
    WEIGHT_STEP,
    on_grid,
    settled,
)
from curator.divergences.transformers import Transformer
from curator.privacy.toward_zero import toward_zero

LARGEST_WEIGHT: Final = 16.0
LARGEST_PUBLIC_WEIGHT: Final = 1024.0
LARGEST_PUBLIC_SUM: Final = 2.0**16
"""Bound on the sizes of what one output of a public network is summed of, added up."""

ROW_RADIUS: Final = 1 << 12
"""The norm to which rows are clipped, in units of their grid."""

MAX_FEATURES: Final = 1 << 10
MAX_PUBLIC_FEATURES: Final = 1 << 12
MAX_ENLARGED: Final = 16
MAX_CELLS: Final = 4
_MAX_FAN_IN: Final = 1 << 13  # 2^18 2^21 2^13 = 2^52 leaves room for a bias
_MAX_PIXELS: Final = 1 << 18
_MAX_PARAMETERS: Final = 1 << 22
_MAX_PUBLIC_PARAMETERS: Final = 1 << 25
LARGEST_ENTRY: Final = 8 * ROW_RADIUS  # of a row; longer ones are clipped anyway
_CHUNK_ENTRIES: Final = 1 << 22
_LIMITS: Final[Mapping[Rectifier, tuple[float, float]]] = {
    "none": (-LARGEST_ACTIVATION, LARGEST_ACTIVATION),
    "relu": (0.0, LARGEST_ACTIVATION),
    "relu6": (0.0, 6.0),
}


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureShape:
    """Sizes of one network; all of them are public.

    `lenet-features` is two 5x5 convolutions with 6 and 16 channels, each followed by a rectifier
    and pooling of 2x2, and a linear layer; `cnn-features` is the same of 3x3 with 32 and 64
    channels; `mlp-features` is a hidden layer of 256 with a rectifier, and a linear layer. They
    have `num_features` outputs. Of the others, the features are averages of the maps that each of
    `stages` ends with, over `cells` by `cells` equal parts of them; they have no `num_features`.
    Those of a transformer are the image's token after each of `stages`; `cells` is 1. Every pixel
    is repeated `enlarged` times in both directions. Pixels are in [-1, 1], and convolutions are
    padded with 0.
    """

    architecture: PublicArchitecture
    channels: int
    height: int
    width: int
    max_level: int
    num_features: int
    stages: tuple[int, ...] = ()
    cells: int = 1
    enlarged: int = 1

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: If sums of products might be inexact, or the network is absurdly large.
        """
        self._check_features()
        least, plan = self.plan.least_side, self.plan
        if min(self.height, self.width) * self.enlarged < least:
            msg = f"{self.architecture} needs images of at least {least}x{least}"
            raise ValueError(msg)
        if plan.channels is not None and self.channels not in {1, plan.channels}:
            msg = f"{self.architecture} needs images of 1 or {plan.channels} channels"
            raise ValueError(msg)
        fan_ins = [math.prod(size[1:]) for size in self.sizes.values() if len(size) > 1]
        pixels = self.channels * self.height * self.width * self.enlarged**2
        first = math.prod(next(iter(self.sizes.values())))
        is_wide = max(fan_ins[0], pixels) > _MAX_PIXELS or max(fan_ins[1:]) > _MAX_FAN_IN
        if is_wide or first > _MAX_PARAMETERS:
            msg = f"images are too large for {self.architecture}"
            raise ValueError(msg)
        if self.plan.transformer is not None and self._tokens > MAX_TOKENS:
            msg = f"images are too large for {self.architecture}"
            raise ValueError(msg)
        if self.num_parameters > (_MAX_PARAMETERS if self.has_outputs else _MAX_PUBLIC_PARAMETERS):
            msg = f"num_features: {self.architecture} would have too many weights"
            raise ValueError(msg)

    def _check_features(self) -> None:
        """Check what is asked of the network.

        Raises:
            ValueError: If it has no such features, or too many.
        """
        if self.has_outputs:
            if not 1 <= self.num_features <= MAX_FEATURES:
                msg = f"num_features must be in 1 to {MAX_FEATURES}"
                raise ValueError(msg)
            if self.stages or (self.cells, self.enlarged) != (1, 1):
                msg = f"stages must be empty, cells and enlarged 1: {self.architecture} has outputs"
                raise ValueError(msg)
        else:
            self._check_stages()

    def _check_stages(self) -> None:
        """Check what is asked of a trunk.

        Raises:
            ValueError: If it has no such features, or too many.
        """
        most = len(self.plan.stage_channels)
        if self.num_features or list(self.stages) != sorted({*self.stages} - {0}):
            msg = f"num_features must be 0, and stages in their order, for {self.architecture}"
            raise ValueError(msg)
        if not self.stages or self.stages[-1] > most or self.stages[0] < 1:
            msg = f"stages must be some of 1 to {most} for {self.architecture}"
            raise ValueError(msg)
        if not (1 <= self.cells <= MAX_CELLS and 1 <= self.enlarged <= MAX_ENLARGED):
            msg = f"cells must be in 1 to {MAX_CELLS}, and enlarged in 1 to {MAX_ENLARGED}"
            raise ValueError(msg)
        if self.plan.transformer is not None and self.cells != 1:
            msg = f"cells must be 1 for {self.architecture}"
            raise ValueError(msg)
        if sum(self.part_widths) > MAX_PUBLIC_FEATURES:
            msg = f"stages, cells: at most {MAX_PUBLIC_FEATURES} features"
            raise ValueError(msg)

    @property
    def plan(self) -> NetworkPlan:
        """The layers."""
        return plan_of(self.architecture, self.channels)

    @property
    def has_outputs(self) -> bool:
        """Whether the features are the outputs of a linear layer."""
        return self.plan.hidden is not None

    @property
    def part_widths(self) -> tuple[int, ...]:
        """Features of each stage that is asked for, or of the linear layer."""
        if self.has_outputs:
            return (self.num_features,)
        channels = self.plan.stage_channels
        return tuple(channels[stage - 1] * self.cells**2 for stage in self.stages)

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight by its name."""
        layers: dict[str, tuple[int, ...]] = {one.name: one.size for one in self.plan.layers}
        if self.plan.hidden is not None:
            inputs = self._flattened
            for outputs in self.plan.hidden:
                layers["hidden"] = (outputs, inputs)
                inputs = outputs
            layers["features"] = (self.num_features, inputs)
        made = {
            f"{name}.{part}": of
            for name, size in layers.items()
            for part, of in (("weight", size), ("bias", size[:1]))
        }
        return made if self.plan.transformer is None else made | self.plan.transformer.sizes

    @property
    def num_parameters(self) -> int:
        """Number of values of all weights."""
        return sum(math.prod(size) for size in self.sizes.values())

    @property
    def multiplications(self) -> int:
        """Multiplications for one record: how much work a network is."""
        if not self.plan.stages:
            return self.num_parameters
        maps = sum(math.prod(one.size) * height * width for one, height, width in self._places())
        if self.plan.transformer is not None:
            return maps + self.plan.transformer.multiplications(self._tokens)
        return maps + sum(math.prod(size) for size in self._linear)

    @property
    def entries(self) -> int:
        """Numbers of the largest tensor that is made of one record."""
        wide = [
            max(1 if one.by_channel else one.side**2, 1) * one.inputs * height * width
            for one, height, width in self._places()
        ]
        tall = [one.outputs * height * width for one, height, width in self._places()]
        blocks = self.plan.transformer
        deep = [] if blocks is None else [blocks.entries(self._tokens)]
        return max([*wide, *tall, *deep, *(size[0] for size in self.sizes.values())])

    @property
    def num_activations(self) -> int:
        """Numbers of all maps of one record, and of what linear layers make of them."""
        maps = sum(one.outputs * high * wide for one, high, wide in self._places())
        if self.plan.transformer is not None:
            return maps + self.plan.transformer.activations(self._tokens)
        outputs = [one.outputs for one in self.plan.layers]
        return maps + sum(outputs) + sum(size[0] for size in self._linear)

    @property
    def _linear(self) -> list[tuple[int, ...]]:
        """Sizes of linear layers on flattened maps."""
        return [
            self.sizes[f"{name}.weight"]
            for name in ("hidden", "features")
            if f"{name}.weight" in self.sizes
        ]

    @property
    def _tokens(self) -> int:
        """Tokens of a transformer: one for the image, and one for each patch."""
        *_, (_, tall, wide) = self._places()
        return 1 + tall * wide

    @property
    def _flattened(self) -> int:
        """Numbers of the maps that linear layers begin with."""
        places = list(self._places())
        if not places:
            return self.channels * self.height * self.width
        layer, height, width = places[-1]
        return layer.outputs * (height // self.plan.pool) * (width // self.plan.pool)

    def _places(self) -> Iterator[tuple[Convolution, int, int]]:
        """Yield each convolution with the height and width of what it makes."""
        height, width = self.height * self.enlarged, self.width * self.enlarged
        for stage in self.plan.stages:
            for block in stage:
                height, width = _pooled(height, block.pool), _pooled(width, block.pool)
                before = height, width
                for layer in block.convolutions:
                    height, width = -(-height // layer.stride), -(-width // layer.stride)
                    yield layer, height, width
                if isinstance(block.shortcut, Convolution):
                    stride = block.shortcut.stride
                    yield block.shortcut, -(-before[0] // stride), -(-before[1] // stride)


def feature_rows(
    shape: FeatureShape, weights: Mapping[str, Tensor], levels_MP: Tensor, clip_norm: float
) -> Tensor:
    """Return the features of records as rows of integers.

    Args:
        shape: Sizes.
        weights: By name, of these sizes; finite, at most `LARGEST_WEIGHT` in size. Or those of a
            public network, checked by `check_public_weights`.
        levels_MP: Stored pixel levels.
        clip_norm: What `ROW_RADIUS` stands for.

    Returns:
        float64 integers [M, F] in units of clip_norm / ROW_RADIUS, at most 8 ROW_RADIUS each.

    Privacy:
        Row i is a function of record i and the weights alone, bit for bit.
    """
    blocks = shape.plan.transformer
    scales = set() if blocks is None else blocks.scales
    whole = {
        name: on_grid(value, SCALE_STEP if name in scales else WEIGHT_STEP)
        for name, value in weights.items()
    }
    parts = [
        _rows(shape, whole, chunk, clip_norm)
        for chunk in torch.split(levels_MP, max(1, _CHUNK_ENTRIES // shape.entries))
    ]
    return torch.cat(parts)


def image_features(shape: FeatureShape, weights: Mapping[str, Tensor], images_NP: Tensor) -> Tensor:
    """Return the features [N, F] of public images in [-1, 1], in their dtype; differentiable."""
    return torch.cat(_Layers(weights, shape, 1.0, is_exact=False).features(images_NP), dim=1)


def check_public_weights(weights: Mapping[str, Tensor]) -> None:
    """Check that every sum of products is exact, for weights larger than those that are sent.

    Args:
        weights: Finite, at most `LARGEST_PUBLIC_WEIGHT` in size.

    Raises:
        ValueError: With the name of a tensor that is too large.
    """
    for name, value in weights.items():
        if value.ndim > 1:
            largest = float(value.to(torch.float64).abs().flatten(1).sum(dim=1).max())
            if largest > LARGEST_PUBLIC_SUM:
                msg = f"{name}: weights of one output must add up to {LARGEST_PUBLIC_SUM:g} at most"
                raise ValueError(msg)


def _rows(
    shape: FeatureShape, whole: Mapping[str, Tensor], levels_MP: Tensor, clip_norm: float
) -> Tensor:
    """Return the rows of one chunk."""
    centred_MP = levels_MP.to(torch.float64) * 2 - shape.max_level
    layers = _Layers(whole, shape, 1.0 / shape.max_level, is_exact=True)
    values_MF = torch.cat(layers.features(centred_MP), dim=1)
    rows_MF = toward_zero(values_MF * (ROW_RADIUS / clip_norm))
    return rows_MF.clamp(-LARGEST_ENTRY, LARGEST_ENTRY)


@final
class _Layers:
    """The layers on numbers in their own units, whether these are exact or floats.

    What comes in are integers in units of `unit`, which the first layer multiplies by it at its
    end: elementwise, once its sum is made.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], shape: FeatureShape, unit: float, *, is_exact: bool
    ) -> None:
        self._weights = weights
        self._shape = shape
        self._unit = unit
        self._is_exact = is_exact

    def features(self, values_MP: Tensor) -> list[Tensor]:
        """Return the features of each stage that is asked for, or the outputs."""
        shape, plan = self._shape, self._shape.plan
        maps = values_MP.reshape(-1, shape.channels, shape.height, shape.width)
        if plan.channels is not None and shape.channels != plan.channels:
            maps = maps.expand(-1, plan.channels, -1, -1)
        if shape.enlarged > 1:
            maps = maps.repeat_interleave(shape.enlarged, 2).repeat_interleave(shape.enlarged, 3)
        if plan.hidden is None:
            return self._of_stages(maps)
        for block in plan.stages[0] if plan.stages else ():
            maps = self._block(block, maps)
        rows = (max_pool2d(maps, plan.pool) if plan.pool > 1 else maps).flatten(1)
        for _ in plan.hidden:
            rows = self._settled(self._linear(rows, "hidden"), "relu")
        return [self._linear(rows, "features")]

    def _of_stages(self, maps: Tensor) -> list[Tensor]:
        """Return the features of each stage that is asked for."""
        asked, plan, found = self._shape.stages, self._shape.plan, []
        for number, stage in enumerate(plan.stages[: asked[-1]], start=1):
            for block in stage:
                maps = self._block(block, maps)
            if plan.transformer is not None:
                blocks = Transformer(plan.transformer, self._weights, is_exact=self._is_exact)
                return blocks.features(maps, asked)
            if number in asked:
                found.append(self._averages(maps))
        return found

    def _block(self, block: Block, maps: Tensor) -> Tensor:
        if block.pool == 2:
            maps = max_pool2d(maps, 2)
        elif block.pool == 3:
            maps = max_pool2d(maps, 3, stride=2, padding=1)
        made = maps
        for layer in block.convolutions:
            made = self._settled(self._convolved(made, layer), layer.rectifier)
        if block.shortcut == "none":
            return made
        if isinstance(block.shortcut, Convolution):
            shortcut = self._convolved(maps, block.shortcut)
            maps = self._settled(shortcut, block.shortcut.rectifier)
        return self._settled(made + maps, block.rectifier)

    def _averages(self, maps: Tensor) -> Tensor:
        """Return averages over equal parts, or parts that differ by a place: sums are exact."""
        cells, found = self._shape.cells, []
        for row in _cuts(maps.shape[2], cells):
            for column in _cuts(maps.shape[3], cells):
                part = maps[:, :, row, column]
                found.append(part.sum(dim=(2, 3)) / (part.shape[2] * part.shape[3]))
        return torch.cat(found, dim=1)

    def _linear(self, rows: Tensor, name: str) -> Tensor:
        return self._biased(rows @ self._weights[f"{name}.weight"].T, name)

    def _convolved(self, maps: Tensor, layer: Convolution) -> Tensor:
        """Return the sums of a padded convolution: windows times weights."""
        height, width = maps.shape[2:]
        above, below = _padding(height, layer)
        left, right = _padding(width, layer)
        weight = self._weights[f"{layer.name}.weight"]
        tall, wide = -(-height // layer.stride), -(-width // layer.stride)
        if layer.side > 1:
            maps = pad(maps, (left, right, above, below))
        if not self._is_exact:
            groups = layer.inputs if layer.by_channel else 1
            return self._biased(
                conv2d(maps, weight, stride=layer.stride, groups=groups), layer.name
            )
        if layer.by_channel:
            sums = _by_channel(maps, weight, layer.stride, (tall, wide))
        else:
            windows = (
                maps[:, :, :: layer.stride, :: layer.stride].flatten(2)
                if layer.side == 1
                else unfold(maps, layer.side, stride=layer.stride)
            )
            sums = (weight.flatten(1) @ windows).reshape(len(maps), -1, tall, wide)
        return self._biased(sums, layer.name)

    def _biased(self, sums: Tensor, name: str) -> Tensor:
        bias = self._weights[f"{name}.bias"]
        if sums.ndim == 4:
            bias = bias.reshape(-1, 1, 1)
        unit, self._unit = self._unit, 1.0
        return (sums if unit == 1 else sums * unit) + bias

    def _settled(self, sums: Tensor, rectifier: Rectifier) -> Tensor:
        """Return activations between their bounds; exact ones on their grid."""
        low, high = _LIMITS[rectifier]
        return settled(sums, low, high) if self._is_exact else sums.clamp(low, high)


def _by_channel(maps: Tensor, weight: Tensor, stride: int, places: tuple[int, int]) -> Tensor:
    """Return the sums of windows of each channel alone."""
    side, (tall, wide) = weight.shape[-1], places
    sums = maps.new_zeros((*maps.shape[:2], tall, wide))
    for row in range(side):
        for column in range(side):
            rows = slice(row, row + stride * (tall - 1) + 1, stride)
            columns = slice(column, column + stride * (wide - 1) + 1, stride)
            sums.addcmul_(maps[:, :, rows, columns], weight[:, 0, row, column].reshape(-1, 1, 1))
    return sums


def _padding(size: int, layer: Convolution) -> tuple[int, int]:
    """Return how much is put before and after maps of this size."""
    if layer.is_even:
        return layer.side // 2, layer.side // 2
    missing = max((-(-size // layer.stride) - 1) * layer.stride + layer.side - size, 0)
    return missing // 2, missing - missing // 2


def _pooled(size: int, pool: int) -> int:
    """Return how many windows there are."""
    return {1: size, 2: size // 2, 3: -(-size // 2)}[pool]


def _cuts(size: int, cells: int) -> list[slice]:
    """Return the parts of a side; of fewer places than parts, some are in several."""
    return [slice(size * i // cells, -(-size * (i + 1) // cells)) for i in range(cells)]
