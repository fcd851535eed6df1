"""Conditional generators: the analyst's side of the barrier, never sent to the curator."""

from analyst.generators.catalogue import (
    GENERATOR_CONFIGS,
    AnyGeneratorConfig,
    GeneratorConfig,
    build_generator,
)
from analyst.generators.conv_embedding import ConvEmbeddingConfig, ConvEmbeddingGenerator
from analyst.generators.dcgan import DcganConfig, DcganGenerator
from analyst.generators.dp_merf import DpMerfConfig, DpMerfGenerator
from analyst.generators.dp_swd import DpSwdConfig, DpSwdGenerator
from analyst.generators.generator import ConditionalGenerator, ImageShape, num_parameters
from analyst.generators.mlp import MlpConfig, MlpGenerator
from analyst.generators.residual import ResidualConfig, ResidualGenerator
from analyst.generators.sampling import balanced_labels, generate

__all__ = [
    "AnyGeneratorConfig",
    "ConditionalGenerator",
    "ConvEmbeddingConfig",
    "ConvEmbeddingGenerator",
    "DcganConfig",
    "DcganGenerator",
    "DpMerfConfig",
    "DpMerfGenerator",
    "DpSwdConfig",
    "DpSwdGenerator",
    "GENERATOR_CONFIGS",
    "GeneratorConfig",
    "ImageShape",
    "MlpConfig",
    "MlpGenerator",
    "ResidualConfig",
    "ResidualGenerator",
    "balanced_labels",
    "build_generator",
    "generate",
    "num_parameters",
]
