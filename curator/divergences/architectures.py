"""The layers of named networks, as data: what is computed and of which sizes, and no arithmetic.

A network is blocks of convolutions, then perhaps linear layers. Batch normalisation is folded into
the convolutions before a network comes here, and what images are normalised by is a convolution of
1x1, so that every layer has a weight and a bias and nothing else.

The trunks of vgg16 [simonyan:15], resnet-18 and resnet-50 [he:16], efficientnet-lite0 [tan:19] and
dinov2-vits14 [oquab:24] take three channels; images of one are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Architecture = Literal["lenet-features", "mlp-features", "cnn-features"]
PublicArchitecture = Literal[
    "lenet-features",
    "mlp-features",
    "cnn-features",
    "vgg16",
    "resnet-18",
    "resnet-50",
    "efficientnet-lite0",
    "dinov2-vits14",
]
Rectifier = Literal["none", "relu", "relu6"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Convolution:
    """One convolution: `inputs` and `outputs` channels, a window of `side` by `side`.

    Windows are centred on every `stride`-th place; `is_even` is whether padding is shared equally
    between both ends of maps whatever the stride, or as much as the last window needs.
    """

    name: str
    inputs: int
    outputs: int
    side: int = 1
    stride: int = 1
    by_channel: bool = False
    is_even: bool = True
    rectifier: Rectifier = "relu"

    @property
    def size(self) -> tuple[int, int, int, int]:
        """The shape of the weight."""
        return self.outputs, 1 if self.by_channel else self.inputs, self.side, self.side


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Convolutions in a row, to whose result `shortcut` adds what came in.

    `pool` is the side of windows whose largest value comes in instead: windows of 2 next to each
    other, of 3 at every second place.
    """

    convolutions: tuple[Convolution, ...]
    shortcut: Literal["none", "same"] | Convolution = "none"
    rectifier: Rectifier = "none"
    pool: Literal[1, 2, 3] = 1

    @property
    def layers(self) -> tuple[Convolution, ...]:
        """All convolutions, in the order of the weights' names."""
        shortcut = () if isinstance(self.shortcut, str) else (self.shortcut,)
        return self.convolutions + shortcut


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerPlan:
    """Blocks of attention in `heads` parts, and of two linear layers with `hidden` numbers between.

    Tokens have `width` numbers: one is the image's, the others are of patches, to which a table of
    `positions` by `positions` places is added, interpolated to as many as there are.
    """

    depth: int
    width: int
    heads: int
    hidden: int
    positions: int

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight by its name."""
        width = self.width
        made: dict[str, tuple[int, ...]] = {
            "token.weight": (width,),
            "positions.weight": (self.positions**2, width),
        }
        for number in range(self.depth):
            for part in ("norm1", "norm2", "scale1", "scale2"):
                made[f"block{number}.{part}.weight"] = (width,)
            made[f"block{number}.norm1.bias"] = made[f"block{number}.norm2.bias"] = (width,)
            for part, outputs, inputs in self._linear:
                made[f"block{number}.{part}.weight"] = outputs, inputs
                made[f"block{number}.{part}.bias"] = (outputs,)
        return made | {"norm.weight": (width,), "norm.bias": (width,)}

    @property
    def scales(self) -> set[str]:
        """Names of weights that single numbers are multiplied by."""
        found = {name for name in self.sizes if name.endswith(".weight")}
        return {name for name in found if ".scale" in name or "norm" in name}

    def multiplications(self, tokens: int) -> int:
        """Return the multiplications of all blocks for one image."""
        layers = sum(outputs * inputs for _, outputs, inputs in self._linear)
        return self.depth * tokens * (layers + 2 * tokens * self.width)

    def activations(self, tokens: int) -> int:
        """Return the numbers that all blocks make of one image."""
        of_a_token = sum(outputs for _, outputs, _ in self._linear) + self.hidden + 5 * self.width
        return self.depth * tokens * (of_a_token + 2 * self.heads * tokens)

    def entries(self, tokens: int) -> int:
        """Return the numbers of the largest tensor of one image."""
        return tokens * max(3 * self.width, self.hidden, self.heads * tokens)

    @property
    def _linear(self) -> tuple[tuple[str, int, int], ...]:
        """Name, outputs and inputs of the linear layers of a block."""
        return (
            ("qkv", 3 * self.width, self.width),
            ("proj", self.width, self.width),
            ("fc1", self.hidden, self.width),
            ("fc2", self.width, self.hidden),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPlan:
    """Stages of blocks; features are averages of the maps that a stage ends with, or linear.

    Where there is a `transformer`, the maps of the only stage are its patches, and the features are
    its own. `hidden` are the sizes of rectified linear layers on flattened maps, of which the last
    is followed by the linear layer `features`; None where there is none. `pool` is of the last
    maps.
    """

    channels: int | None
    stages: tuple[tuple[Block, ...], ...]
    hidden: tuple[int, ...] | None = None
    pool: Literal[1, 2] = 1
    least_side: int = 1
    transformer: TransformerPlan | None = None

    @property
    def layers(self) -> Iterator[Convolution]:
        """All convolutions, in the order of the weights' names."""
        return (layer for stage in self.stages for block in stage for layer in block.layers)

    @property
    def stage_channels(self) -> tuple[int, ...]:
        """Channels of the maps that each stage ends with, or numbers of a token, by block."""
        if self.transformer is not None:
            return (self.transformer.width,) * self.transformer.depth
        return tuple(stage[-1].convolutions[-1].outputs for stage in self.stages)


def plan_of(name: PublicArchitecture, channels: int) -> NetworkPlan:
    """Return the layers of a network.

    Args:
        name: Of the network.
        channels: Of images.
    """
    match name:
        case "mlp-features":
            return NetworkPlan(channels=None, stages=(), hidden=(_HIDDEN,))
        case "lenet-features":
            return _small(channels, (6, 16), side=5)
        case "cnn-features":
            return _small(channels, (32, 64), side=3)
        case _:
            return _TRUNKS[name]


_HIDDEN: Final = 256


def _small(channels: int, outputs: tuple[int, int], *, side: int) -> NetworkPlan:
    first = Convolution(name="conv1", inputs=channels, outputs=outputs[0], side=side)
    second = Convolution(name="conv2", inputs=outputs[0], outputs=outputs[1], side=side)
    blocks = (Block(convolutions=(first,)), Block(convolutions=(second,), pool=2))
    return NetworkPlan(channels=None, stages=(blocks,), hidden=(), pool=2, least_side=4)


class _Named:
    """Gives the layers of a trunk their names, in their order."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, inputs: int, outputs: int, side: int = 1, **more: Any) -> Convolution:
        name = f"layer{self._count}"
        self._count += 1
        return Convolution(name=name, inputs=inputs, outputs=outputs, side=side, **more)

    def normalisation(self) -> Block:
        """Return the layer that images are normalised by."""
        layer = Convolution(name="input", inputs=3, outputs=3, by_channel=True, rectifier="none")
        return Block(convolutions=(layer,))


def _vgg16() -> NetworkPlan:
    named, stages, inputs = _Named(), [], 3
    for number, (outputs, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        layers = []
        for _ in range(count):
            layers.append(named(inputs, outputs, 3))
            inputs = outputs
        block = Block(convolutions=tuple(layers), pool=2 if number else 1)
        stages.append((block,) if number else (named.normalisation(), block))
    return NetworkPlan(channels=3, stages=tuple(stages), least_side=16)


def _resnet(counts: tuple[int, ...], *, expansion: int) -> NetworkPlan:
    named, inputs = _Named(), 64
    stem = Block(convolutions=(named(3, inputs, 7, stride=2),))
    stages = []
    for number, count in enumerate(counts):
        width, blocks = 64 << number, []
        for index in range(count):
            stride = 2 if number and not index else 1
            outputs = width * expansion
            if expansion == 1:
                layers = [
                    named(inputs, width, 3, stride=stride),
                    named(width, outputs, 3, rectifier="none"),
                ]
            else:
                layers = [
                    named(inputs, width),
                    named(width, width, 3, stride=stride),
                    named(width, outputs, rectifier="none"),
                ]
            is_same = stride == 1 and inputs == outputs
            blocks.append(
                Block(
                    convolutions=tuple(layers),
                    shortcut="same"
                    if is_same
                    else named(inputs, outputs, stride=stride, rectifier="none"),
                    rectifier="relu",
                    pool=1 if number or index else 3,
                )
            )
            inputs = outputs
        stages.append(tuple(blocks) if number else (named.normalisation(), stem, *blocks))
    return NetworkPlan(channels=3, stages=tuple(stages), least_side=16)


def _efficientnet_lite0() -> NetworkPlan:
    named = _Named()
    how: dict[str, Any] = {"is_even": False, "rectifier": "relu6"}
    stem = Block(convolutions=(named(3, 32, 3, stride=2, **how),))
    stages: list[tuple[Block, ...]] = []
    inputs = 32
    for outputs, count, side, first_stride, expansion in (
        (16, 1, 3, 1, 1),
        (24, 2, 3, 2, 6),
        (40, 2, 5, 2, 6),
        (80, 3, 3, 2, 6),
        (112, 3, 5, 1, 6),
        (192, 4, 5, 2, 6),
        (320, 1, 3, 1, 6),
    ):
        blocks = []
        for index in range(count):
            stride, width = 1 if index else first_stride, inputs * expansion
            layers = [named(inputs, width, **how)] if expansion > 1 else []
            layers.append(named(width, width, side, stride=stride, by_channel=True, **how))
            layers.append(named(width, outputs, rectifier="none"))
            shortcut: Literal["none", "same"] = "same" if index else "none"
            blocks.append(Block(convolutions=tuple(layers), shortcut=shortcut))
            inputs = outputs
        stages.append(tuple(blocks) if stages else (named.normalisation(), stem, *blocks))
    stages.append((Block(convolutions=(named(inputs, 1280, **how),)),))
    return NetworkPlan(channels=3, stages=tuple(stages), least_side=16)


def _dinov2_vits14() -> NetworkPlan:
    named, blocks = (
        _Named(),
        TransformerPlan(depth=12, width=384, heads=6, hidden=1536, positions=37),
    )
    patches = named(3, blocks.width, 14, stride=14, is_even=False, rectifier="none")
    stage = named.normalisation(), Block(convolutions=(patches,))
    return NetworkPlan(channels=3, stages=(stage,), least_side=14, transformer=blocks)


_TRUNKS: Final[dict[str, NetworkPlan]] = {
    "vgg16": _vgg16(),
    "resnet-18": _resnet((2, 2, 2, 2), expansion=1),
    "resnet-50": _resnet((3, 4, 6, 3), expansion=4),
    "efficientnet-lite0": _efficientnet_lite0(),
    "dinov2-vits14": _dinov2_vits14(),
}
