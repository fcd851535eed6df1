"""Conditional generators: the analyst's side of the barrier, never sent to the curator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.generators.catalogue import build_generator
    from analyst.generators.configs import (
        GENERATOR_CONFIGS,
        AnyGeneratorConfig,
        ConvEmbeddingConfig,
        DcganConfig,
        DecodedConfig,
        DpMerfConfig,
        DpSwdConfig,
        GeneratorConfig,
        MlpConfig,
        ResidualConfig,
    )
    from analyst.generators.conv_embedding import ConvEmbeddingGenerator
    from analyst.generators.dcgan import DcganGenerator
    from analyst.generators.decoded import DecodedGenerator
    from analyst.generators.dp_merf import DpMerfGenerator
    from analyst.generators.dp_swd import DpSwdGenerator
    from analyst.generators.generator import ConditionalGenerator, ImageShape, num_parameters
    from analyst.generators.labels import balanced_labels
    from analyst.generators.mlp import MlpGenerator
    from analyst.generators.residual import ResidualGenerator
    from analyst.generators.sampling import generate
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.generators.catalogue": ("build_generator",),
            "analyst.generators.configs": (
                "AnyGeneratorConfig",
                "ConvEmbeddingConfig",
                "DcganConfig",
                "DecodedConfig",
                "DpMerfConfig",
                "DpSwdConfig",
                "GENERATOR_CONFIGS",
                "GeneratorConfig",
                "MlpConfig",
                "ResidualConfig",
            ),
            "analyst.generators.conv_embedding": ("ConvEmbeddingGenerator",),
            "analyst.generators.dcgan": ("DcganGenerator",),
            "analyst.generators.decoded": ("DecodedGenerator",),
            "analyst.generators.dp_merf": ("DpMerfGenerator",),
            "analyst.generators.dp_swd": ("DpSwdGenerator",),
            "analyst.generators.generator": (
                "ConditionalGenerator",
                "ImageShape",
                "num_parameters",
            ),
            "analyst.generators.labels": ("balanced_labels",),
            "analyst.generators.mlp": ("MlpGenerator",),
            "analyst.generators.residual": ("ResidualGenerator",),
            "analyst.generators.sampling": ("generate",),
        },
    )

__all__ = [
    "AnyGeneratorConfig",
    "ConditionalGenerator",
    "ConvEmbeddingConfig",
    "ConvEmbeddingGenerator",
    "DcganConfig",
    "DcganGenerator",
    "DecodedConfig",
    "DecodedGenerator",
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
