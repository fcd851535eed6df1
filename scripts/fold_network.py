"""Turn the weights of a published network into those that 'curator network add' takes.

Usage: python scripts/fold_network.py WEIGHTS.pth --architecture efficientnet-lite0 --out FILE

Batch normalisation is folded into the convolutions before it, layers are named by their order, the
classifier at the end is left out, and images in [-1, 1] are normalised by a layer of their own. It
reads files of state dictionaries without executing anything in them (torch's `weights_only`), or
safetensors. It is for the steward's desk: no server imports it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from curator.divergences.architectures import (  # noqa: E402 - a script knows its own tree
    PublicArchitecture,
    plan_of,
)

TRUNKS = ("vgg16", "resnet-18", "resnet-50", "efficientnet-lite0")
NORMALISATIONS = {
    "torchvision": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "efficientnet-lite": ((127 / 255,) * 3, (128 / 255,) * 3),
}
"""Mean and spread of pixels in [0, 1] that a network was trained with."""


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


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path, help="a state dictionary, .pth or .safetensors")
    parser.add_argument("--architecture", choices=TRUNKS, required=True)
    parser.add_argument("--normalisation", choices=NORMALISATIONS, default="torchvision")
    parser.add_argument("--epsilon", type=float, default=1e-5, help="of batch normalisation")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.weights.suffix == ".safetensors":
        state = load_file(asked.weights)
    else:
        state = torch.load(  # noqa: TID251 - weights_only: nothing in it is executed
            asked.weights, weights_only=True, map_location="cpu"
        )
    try:
        made = fold(state, asked.architecture, asked.normalisation, epsilon=asked.epsilon)
    except ValueError as problem:
        print(f"{asked.weights}: {problem}", file=sys.stderr)
        return 1
    save_file(made, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
