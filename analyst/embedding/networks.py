"""Features of public networks, in floats: the layers of named architectures on weights by name.

The curator has its own implementation in exact arithmetic; this one shares no code with it, and a
test holds both together. Batch normalisation is folded into the convolutions.

Shapes: N images, C channels, H height, W width, R features.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch.nn.functional import (
    adaptive_avg_pool2d,
    conv2d,
    max_pool2d,
    normalize,
    pad,
    relu,
    relu6,
)

from analyst.adaptation.networks import Architecture, build_extractor
from analyst.embedding.vision_transformer import image_tokens
from analyst.errors import EmbeddingError
from analyst.generators.generator import ImageShape
from analyst.os_errors import explain_os_error

_LARGEST: Final = 512.0
_LARGEST_FEATURE: Final = 32.0
_MOST_BYTES: Final = 1 << 28


def read_network(path: Path) -> tuple[dict[str, Tensor], str]:
    """Return the weights in a file, and its digest, which a run names.

    Raises:
        EmbeddingError: If it is no file of weights.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (OSError, MemoryError) as error:
        words, remedy = explain_os_error(error, str(path))
        message = f"cannot read the network {words}"
        raise EmbeddingError(message, remedy) from None
    try:
        weights = load(data) if len(data) <= _MOST_BYTES else {}
    except (ValueError, KeyError, SafetensorError):
        weights = {}
    if not weights or not all(one.dtype == torch.float32 for one in weights.values()):
        message = f"{path} holds no weights of a network"
        raise EmbeddingError(message, "Give the safetensors file that the steward added.")
    return weights, hashlib.sha256(data).hexdigest()


def network_map(
    parameters: Mapping[str, Any], shape: ImageShape, weights: Mapping[str, Tensor]
) -> Callable[[Tensor], Tensor]:
    """Return the map from images [N, C, H, W] in [-1, 1] to rows [N, R] of norm 1.

    Args:
        parameters: Of the mechanism `feature-statistics`.
        shape: Public facts of the data set.
        weights: Of its network, by name.

    Raises:
        RuntimeError: If they are not those of the architecture.
        KeyError: If one is missing.
    """
    name, stages = parameters["architecture"], tuple(parameters["stages"])
    if name in get_args(Architecture):
        extractor = build_extractor(
            cast("Architecture", name), shape, int(parameters["num_features"])
        )
        extractor.load_state_dict(dict(weights))
        extractor.requires_grad_(requires_grad=False)

        def outputs(images_NCHW: Tensor) -> Tensor:
            features_NR: Tensor = extractor.to(images_NCHW)(images_NCHW)
            return normalize(features_NR.clamp(0, _LARGEST_FEATURE), dim=1)

        return outputs
    enlarged, cells = int(parameters["enlarged"]), int(parameters["cells"])
    trunk, kept = _TRUNKS[name], dict(weights)

    def averages(images_NCHW: Tensor) -> Tensor:
        maps = images_NCHW.expand(-1, 3, -1, -1)
        maps = maps.repeat_interleave(enlarged, 2).repeat_interleave(enlarged, 3)
        rows = []
        for number, found in enumerate(trunk(_Layers(kept, maps), maps), start=1):
            if number in stages:
                cut = adaptive_avg_pool2d(found, cells).flatten(2).transpose(1, 2).flatten(1)
                rows.append(normalize(cut.clamp(-_LARGEST_FEATURE, _LARGEST_FEATURE), dim=1))
            if number == stages[-1]:
                break
        return torch.cat(rows, dim=1) / math.sqrt(len(rows))

    return averages


class _Layers:
    """Convolutions in the order of their numbers, each used once."""

    def __init__(self, weights: dict[str, Tensor], like: Tensor) -> None:
        self._weights = weights
        self._like = like
        self._number = 0

    def next(
        self, maps: Tensor, *, stride: int = 1, at_end: bool = False, by_channel: bool = False
    ) -> Tensor:
        """Return the sums of the next convolution.

        Args:
            maps: What comes in.
            stride: Between windows.
            at_end: Whether maps are padded by what the last window needs, more at their end.
            by_channel: Whether each channel is alone.
        """
        number, self._number = self._number, self._number + 1
        name = f"layer{number}"
        return self.named(name, maps, stride=stride, at_end=at_end, by_channel=by_channel)

    def weight(self, name: str) -> Tensor:
        """Return a weight by its name; it stays where the maps are."""
        moved = self._weights[name] = self._weights[name].to(self._like.device)
        return moved.to(self._like)

    def named(
        self, name: str, maps: Tensor, *, stride: int, at_end: bool, by_channel: bool
    ) -> Tensor:
        """Return the sums of a convolution, bounded."""
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        side, ends = weight.shape[-1], []
        for size in (maps.shape[3], maps.shape[2]):
            missing = max((math.ceil(size / stride) - 1) * stride + side - size, 0)
            first = missing // 2 if at_end else side // 2
            ends += [first, missing - first if at_end else side // 2]
        sums = conv2d(
            pad(maps, ends), weight, bias, stride=stride, groups=len(weight) if by_channel else 1
        )
        return sums.clamp(-_LARGEST, _LARGEST)

    def normalised(self, maps: Tensor) -> Tensor:
        """Return images as the network was trained on them."""
        return self.named("input", maps, stride=1, at_end=False, by_channel=True)


def _vgg16(layers: _Layers, maps: Tensor) -> Iterator[Tensor]:
    maps = layers.normalised(maps)
    for number, count in enumerate((2, 2, 3, 3, 3)):
        maps = max_pool2d(maps, 2) if number else maps
        for _ in range(count):
            maps = relu(layers.next(maps))
        yield maps


def _resnet(
    layers: _Layers, maps: Tensor, counts: tuple[int, ...], *, bottleneck: bool
) -> Iterator[Tensor]:
    maps = relu(layers.next(layers.normalised(maps), stride=2))
    maps = max_pool2d(maps, 3, stride=2, padding=1)
    for number, count in enumerate(counts):
        for index in range(count):
            stride, came = 2 if number and not index else 1, maps
            if bottleneck:
                maps = relu(layers.next(maps))
            maps = relu(layers.next(maps, stride=stride))
            maps = layers.next(maps)
            if came.shape[1:] != maps.shape[1:]:
                came = layers.next(came, stride=stride)
            maps = relu(maps + came).clamp(max=_LARGEST)
        yield maps


def _efficientnet_lite0(layers: _Layers, maps: Tensor) -> Iterator[Tensor]:
    maps = relu6(layers.next(layers.normalised(maps), stride=2, at_end=True))
    counts, strides = (1, 2, 2, 3, 3, 4, 1), (1, 2, 2, 2, 1, 2, 1)
    for number, (count, first_stride) in enumerate(zip(counts, strides, strict=True)):
        for index in range(count):
            came = maps
            if number:
                maps = relu6(layers.next(maps))
            stride = 1 if index else first_stride
            maps = relu6(layers.next(maps, stride=stride, at_end=True, by_channel=True))
            maps = layers.next(maps)
            maps = (maps + came).clamp(-_LARGEST, _LARGEST) if index else maps
        yield maps
    yield relu6(layers.next(maps))


def _dinov2_vits14(layers: _Layers, maps: Tensor) -> Iterator[Tensor]:
    patches = layers.next(layers.normalised(maps), stride=14, at_end=True)
    return image_tokens(patches, layers.weight, depth=12, heads=6)


_TRUNKS: Final[Mapping[str, Callable[[_Layers, Tensor], Iterator[Tensor]]]] = {
    "vgg16": _vgg16,
    "resnet-18": lambda layers, maps: _resnet(layers, maps, (2, 2, 2, 2), bottleneck=False),
    "resnet-50": lambda layers, maps: _resnet(layers, maps, (3, 4, 6, 3), bottleneck=True),
    "efficientnet-lite0": _efficientnet_lite0,
    "dinov2-vits14": _dinov2_vits14,
}
