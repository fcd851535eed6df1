"""Turn the weights of a published network into those that 'curator network add' takes.

Usage: python scripts/fold_network.py WEIGHTS.pth --architecture efficientnet-lite0 --out FILE

Batch normalisation is folded into the convolutions before it, layers are named by their order, the
classifier at the end is left out, and images in [-1, 1] are normalised by a layer of their own. A
transformer is known by the names that DINOv2 is published with, or those of Hugging Face. It reads
files of state dictionaries without executing anything in them (torch's `weights_only`),
safetensors, or what Keras saves of weights (.h5, for which it needs the package h5py). It is for
the steward's desk: no server imports it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from curator.divergences.architectures import (  # noqa: E402 - a script knows its own tree
    PublicArchitecture,
    TransformerPlan,
    plan_of,
)

TRUNKS = ("vgg16", "resnet-18", "resnet-50", "efficientnet-lite0", "dinov2-vits14")
NORMALISATIONS = {
    "torchvision": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "efficientnet-lite": ((127 / 255,) * 3, (128 / 255,) * 3),
    "caffe": ((123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3),
}
"""Mean and spread of red, green and blue pixels in [0, 1] that a network was trained with.

Those of Caffe have blue first, and are not scaled; only vgg16 is published so.
"""

CAFFE_SCALE = 1 / 64
"""By what numbers of such a network are multiplied, which are too large for the curator else.

Rectifiers and pooling commute with it, so that biases are scaled by it, and features with them.
"""


def fold(
    state: Mapping[str, Tensor],
    architecture: PublicArchitecture,
    normalisation: str,
    *,
    epsilon: float,
) -> dict[str, Tensor]:
    """Return the weights of a trunk by the names that the curator gives them.

    Args:
        state: A state dictionary, in the order of the layers.
        architecture: One of `TRUNKS`.
        normalisation: One of `NORMALISATIONS`.
        epsilon: Of the batch normalisation.

    Raises:
        ValueError: If it is not of the architecture.
    """
    (mean, spread), made = NORMALISATIONS[normalisation], {}
    made["input.weight"] = (0.5 / torch.tensor(spread)).reshape(3, 1, 1, 1)
    made["input.bias"] = (0.5 - torch.tensor(mean)) / torch.tensor(spread)
    blocks = plan_of(architecture, 3).transformer
    if blocks is not None:
        made |= _renamed(state, blocks, architecture)
        return {name: value.to(torch.float32).contiguous() for name, value in made.items()}
    is_caffe = normalisation == "caffe"
    if is_caffe and architecture != "vgg16":
        msg = f"{architecture} is not normalised as in Caffe: choose another --normalisation"
        raise ValueError(msg)
    if is_caffe:
        made = {name: value * CAFFE_SCALE for name, value in made.items()}
    names = list(state)
    windows = [name for name in names if name.endswith("weight") and state[name].ndim == 4]
    layers = [layer for layer in plan_of(architecture, 3).layers if layer.name != "input"]
    if len(windows) != len(layers):
        msg = f"{architecture} has {len(layers)} convolutions, and the file {len(windows)}"
        raise ValueError(msg)
    for layer, name in zip(layers, windows, strict=True):
        weight, bias = _folded(state, names, name, epsilon)
        if tuple(weight.shape) != layer.size:
            msg = f"{name} is {tuple(weight.shape)}, and {layer.name} {layer.size}"
            raise ValueError(msg)
        if is_caffe:
            weight, bias = weight.flip(1) if layer.name == "layer0" else weight, bias * CAFFE_SCALE
        made[f"{layer.name}.weight"], made[f"{layer.name}.bias"] = weight, bias
    return {name: value.to(torch.float32).contiguous() for name, value in made.items()}


def _folded(
    state: Mapping[str, Tensor], names: list[str], name: str, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Return a convolution with what follows it: a bias, and normalisation where there is one."""
    weight = state[name].to(torch.float64)
    bias = state.get(name.removesuffix("weight") + "bias", torch.zeros(len(weight)))
    bias = bias.to(torch.float64)
    after = names[names.index(name) + 1 :]
    prefix = next((one.rpartition(".")[0] for one in after if one.endswith("weight")), "")
    if f"{prefix}.running_var" in state:
        scale, shift, mean, variance = (
            state[f"{prefix}.{part}"].to(torch.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / (variance + epsilon).sqrt()
        weight, bias = weight * factor.reshape(-1, 1, 1, 1), (bias - mean) * factor + shift
    return weight, bias


def _renamed(
    state: Mapping[str, Tensor], blocks: TransformerPlan, architecture: PublicArchitecture
) -> dict[str, Tensor]:
    """Return the weights of a transformer; the image's token has its position in it.

    Raises:
        ValueError: If it is not of the architecture, or of other names.
    """
    if any("register_tokens" in name for name in state):
        msg = f"{architecture} has no register tokens: take the weights without registers"
        raise ValueError(msg)
    is_other = any(name.startswith("encoder.layer.") for name in state)
    names = _transformer_names(blocks.depth, HUGGING_FACE if is_other else PUBLISHED)
    missing = [name for parts in names.values() for name in parts if name not in state]
    if missing:
        msg = f"{architecture} has a tensor {missing[0]}, and the file has none of that name"
        raise ValueError(msg)
    found = {ours: torch.cat([state[one] for one in parts]) for ours, parts in names.items()}
    image, positions = found.pop("image").flatten(), found.pop("places").flatten(0, -2)
    made = {"token.weight": image + positions[0], "positions.weight": positions[1:]} | found
    layer = next(layer for layer in plan_of(architecture, 3).layers if layer.name == "layer0")
    sizes = blocks.sizes | {"layer0.weight": layer.size, "layer0.bias": layer.size[:1]}
    for name, size in sizes.items():
        if tuple(made[name].shape) != size:
            msg = f"{name} is {tuple(made[name].shape)} in the file, and {size} in {architecture}"
            raise ValueError(msg)
    return made


PUBLISHED = {
    "image": ("cls_token",),
    "places": ("pos_embed",),
    "layer0": ("patch_embed.proj",),
    "norm": ("norm",),
    "block": ("blocks",),
    "qkv": ("attn.qkv",),
    "proj": ("attn.proj",),
    "fc1": ("mlp.fc1",),
    "fc2": ("mlp.fc2",),
    "scale1": ("ls1.gamma",),
    "scale2": ("ls2.gamma",),
}
"""Names of torch.hub's weights of DINOv2, and of timm's."""

HUGGING_FACE = {
    "image": ("embeddings.cls_token",),
    "places": ("embeddings.position_embeddings",),
    "layer0": ("embeddings.patch_embeddings.projection",),
    "norm": ("layernorm",),
    "block": ("encoder.layer",),
    "qkv": tuple(f"attention.attention.{part}" for part in ("query", "key", "value")),
    "proj": ("attention.output.dense",),
    "fc1": ("mlp.fc1",),
    "fc2": ("mlp.fc2",),
    "scale1": ("layer_scale1.lambda1",),
    "scale2": ("layer_scale2.lambda1",),
}
"""Names of the same in the library transformers, which has three layers for one."""


def _transformer_names(depth: int, known: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Return of which published tensors each one of the curator is made, in their order."""
    made = {name: list(known[name]) for name in ("image", "places")}
    for name in ("layer0", "norm"):
        for part in ("weight", "bias"):
            made[f"{name}.{part}"] = [f"{known[name][0]}.{part}"]
    for number in range(depth):
        at, ours = f"{known['block'][0]}.{number}", f"block{number}"
        for name in ("scale1", "scale2"):
            made[f"{ours}.{name}.weight"] = [f"{at}.{known[name][0]}"]
        for name in ("norm1", "norm2", "qkv", "proj", "fc1", "fc2"):
            for part in ("weight", "bias"):
                theirs = known.get(name, (name,))
                made[f"{ours}.{name}.{part}"] = [f"{at}.{one}.{part}" for one in theirs]
    return made


def read_keras(path: Path) -> dict[str, Tensor]:
    """Return the convolutions of a file of Keras weights that have windows, in its order.

    Raises:
        ImportError: If there is no package h5py.
        ValueError: If it is no such file.
    """
    h5py = importlib.import_module("h5py")  # only for whoever has such a file
    state: dict[str, Tensor] = {}

    def visit(name: str, found: Any) -> None:
        values = found[()] if isinstance(found, h5py.Dataset) else np.zeros(0)
        place, _, number = name.rpartition("/")
        if values.ndim == 4 and min(values.shape[:2]) > 1:
            state[f"{place}.weight"] = torch.from_numpy(values).permute(3, 2, 0, 1)
        elif number == "1" and f"{place}.weight" in state:
            state[f"{place}.bias"] = torch.from_numpy(values)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except OSError:
        msg = "it is no file of Keras weights"
        raise ValueError(msg) from None
    return state


def read_state(path: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a published file.

    Raises:
        ImportError: If there is no package that reads it.
        ValueError: If it is no such file.
    """
    if path.suffix == ".h5":
        return read_keras(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state: object = torch.load(  # noqa: TID251 - weights_only: nothing is executed
            path, weights_only=True, map_location="cpu"
        )
    except OSError as problem:
        msg = f"it cannot be read: {problem.strerror or problem}"
        raise ValueError(msg) from None
    except Exception:  # noqa: BLE001 - each reader has its own for a file that is none
        msg = "it is damaged, or holds more than tensors, which is never executed"
        raise ValueError(msg) from None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        names = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        msg = f"it is no state dictionary but {names[:200]}: save the one that is in it by itself"
        raise ValueError(msg)
    return state


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path, help=".pth, .safetensors or .h5")
    parser.add_argument("--architecture", choices=TRUNKS, required=True)
    parser.add_argument("--normalisation", choices=NORMALISATIONS, default="torchvision")
    parser.add_argument("--epsilon", type=float, default=1e-5, help="of batch normalisation")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    try:
        state = read_state(asked.weights)
        made = fold(state, asked.architecture, asked.normalisation, epsilon=asked.epsilon)
    except ImportError:
        print(f"{asked.weights}: install h5py first: pip install h5py", file=sys.stderr)
        return 1
    except ValueError as problem:
        print(f"{asked.weights}: {problem}", file=sys.stderr)
        return 1
    try:
        save_file(made, asked.out)
    except (OSError, SafetensorError) as problem:
        print(f"{asked.out} cannot be written: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
