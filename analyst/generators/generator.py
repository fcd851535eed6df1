"""What the training loop needs of a generator, and how one starts from an explicit seed.

A generator maps latents and labels to images in [-1, 1]. Nothing here reads or changes the global
random state: weights are drawn from the `torch.Generator` that the caller passes.

Shapes: N rows, Z latent dimensions, C channels, H height, W width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from analyst.generators.configs import AnyGeneratorConfig, Latent
from analyst.generators.normalisation import ClassBatchNorm2d


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageShape:
    """The public shape of a data set: what a generator must produce."""

    channels: int
    height: int
    width: int
    num_classes: int


class ConditionalGenerator(nn.Module):
    """A torch module that turns latents and labels into images in [-1, 1]."""

    batch_dependent: ClassVar[bool]  # true if an image depends on the other rows of its batch

    def __init__(self, config: AnyGeneratorConfig, shape: ImageShape) -> None:
        """Take what every generator has; subclasses add layers."""
        super().__init__()
        self.latent: Latent = config.latent
        self.latent_dim = config.latent_dim
        self.num_classes = shape.num_classes

    if TYPE_CHECKING:

        def __call__(self, latents_NZ: Tensor, labels_N: Tensor) -> Tensor:
            """Return images [N, C, H, W] in [-1, 1]."""
            ...


def build_generator(
    config: AnyGeneratorConfig, shape: ImageShape, randomness: torch.Generator
) -> ConditionalGenerator:
    """Build a generator on the CPU.

    Args:
        config: Which generator, and its sizes.
        shape: Public facts of the data set.
        randomness: Source of the initial weights; it advances.

    Returns:
        A module whose weights depend on `randomness` alone.

    Raises:
        ValueError: If the generator cannot produce `shape`.
    """
    file, _, name = config.module.partition(".")
    kind: type[ConditionalGenerator] = getattr(import_module(f"analyst.generators.{file}"), name)
    with torch.device("meta"):
        module = kind(config, shape)
    initialise(module, randomness)
    return module


def draw_latents(
    latent: Latent, num_rows: int, latent_dim: int, generator: torch.Generator
) -> Tensor:
    """Draw latents on the CPU, so that every device sees the same ones.

    Args:
        latent: U[0, 1] or standard normal.
        num_rows: N.
        latent_dim: Z.
        generator: The source of randomness; it advances.

    Returns:
        Latents [N, Z], float32.
    """
    match latent:
        case "uniform":
            return torch.rand((num_rows, latent_dim), generator=generator)
        case "normal":
            return torch.randn((num_rows, latent_dim), generator=generator)


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw torch's default initial weights from `generator` instead of the global state.

    Args:
        module: A module of linear, convolution, embedding and normalisation layers, in place; on
            the meta device it is first given memory on the CPU.
        generator: The source of randomness; it advances.

    Raises:
        TypeError: If a layer has parameters and no rule here.
    """
    if any(parameter.is_meta for parameter in module.parameters()):
        module.to_empty(device="cpu")
    for layer in module.modules():
        _initialise_layer(layer, generator)


def _initialise_layer(layer: nn.Module, generator: torch.Generator) -> None:
    match layer:
        case nn.Linear() | nn.Conv2d() | nn.ConvTranspose2d():
            _draw_weights(layer, generator)
        case nn.Embedding():
            nn.init.normal_(layer.weight, generator=generator)
        case nn.BatchNorm1d() | nn.BatchNorm2d() | nn.LayerNorm() if layer.weight is not None:
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
        case ClassBatchNorm2d():
            nn.init.ones_(layer.gain)
            nn.init.zeros_(layer.bias)
        case ParametrizationList():
            pass  # the stored weight was drawn with its layer
        case _ if next(layer.parameters(recurse=False), None) is not None:
            msg = f"no initialisation rule for {type(layer).__name__}"
            raise TypeError(msg)


def _draw_weights(
    layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, generator: torch.Generator
) -> None:
    weight = layer.weight
    if is_parametrized(layer, "weight"):  # draw what is learned, beneath the parametrization
        weight = layer.get_parameter("parametrizations.weight.original")
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(weight[0].numel())
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def num_parameters(module: nn.Module) -> int:
    """Return how many numbers `module` learns."""
    return sum(parameter.numel() for parameter in module.parameters())
