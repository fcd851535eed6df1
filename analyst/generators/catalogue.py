"""From a generator's configuration to the module, with weights from an explicit seed."""

from __future__ import annotations

import torch

from analyst.generators.configs import (
    AnyGeneratorConfig,
    ConvEmbeddingConfig,
    DcganConfig,
    DecodedConfig,
    DpMerfConfig,
    DpSwdConfig,
    MlpConfig,
    ResidualConfig,
)
from analyst.generators.conv_embedding import ConvEmbeddingGenerator
from analyst.generators.dcgan import DcganGenerator
from analyst.generators.decoded import DecodedGenerator
from analyst.generators.dp_merf import DpMerfGenerator
from analyst.generators.dp_swd import DpSwdGenerator
from analyst.generators.generator import ImageShape, initialise
from analyst.generators.mlp import MlpGenerator
from analyst.generators.residual import ResidualGenerator

Generator = (
    DcganGenerator
    | MlpGenerator
    | ConvEmbeddingGenerator
    | DecodedGenerator
    | DpMerfGenerator
    | DpSwdGenerator
    | ResidualGenerator
)


def build_generator(
    config: AnyGeneratorConfig, shape: ImageShape, randomness: torch.Generator
) -> Generator:
    """Build the generator on the CPU.

    Args:
        config: Which generator, and its sizes.
        shape: Public facts of the data set.
        randomness: Source of the initial weights; it advances.

    Returns:
        A module whose weights depend on `randomness` alone.

    Raises:
        ValueError: If the generator cannot produce `shape`.
    """
    module: Generator
    with torch.device("meta"):
        match config:
            case DcganConfig():
                module = DcganGenerator(config, shape)
            case MlpConfig():
                module = MlpGenerator(config, shape)
            case ConvEmbeddingConfig():
                module = ConvEmbeddingGenerator(config, shape)
            case DecodedConfig():
                module = DecodedGenerator(config, shape)
            case DpMerfConfig():
                module = DpMerfGenerator(config, shape)
            case DpSwdConfig():
                module = DpSwdGenerator(config, shape)
            case ResidualConfig():
                module = ResidualGenerator(config, shape)
    initialise(module, randomness)
    return module
