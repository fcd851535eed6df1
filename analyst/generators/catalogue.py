"""From a generator's configuration to the module, with weights from an explicit seed."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from analyst.generators.dcgan import DcganConfig, DcganGenerator
from analyst.generators.generator import ImageShape, initialise
from analyst.generators.mlp import MlpConfig, MlpGenerator

GeneratorConfig = Annotated[DcganConfig | MlpConfig, Field(discriminator="kind")]
Generator = DcganGenerator | MlpGenerator


def build_generator(
    config: DcganConfig | MlpConfig, shape: ImageShape, randomness: torch.Generator
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
    initialise(module, randomness)
    return module
