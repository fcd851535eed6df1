"""Conditional generators: the analyst's side of the barrier, never sent to the curator."""

from analyst.generators.catalogue import GeneratorConfig, build_generator
from analyst.generators.dcgan import DcganConfig, DcganGenerator
from analyst.generators.generator import ConditionalGenerator, ImageShape, num_parameters
from analyst.generators.mlp import MlpConfig, MlpGenerator
from analyst.generators.sampling import balanced_labels, generate

__all__ = [
    "ConditionalGenerator",
    "DcganConfig",
    "DcganGenerator",
    "GeneratorConfig",
    "ImageShape",
    "MlpConfig",
    "MlpGenerator",
    "balanced_labels",
    "build_generator",
    "generate",
    "num_parameters",
]
