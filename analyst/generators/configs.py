"""The sizes of every generator, apart from the networks: reading a recipe needs no torch.

A new generator takes a class here, its place in `GENERATOR_CONFIGS`, and the file of its module.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

Latent = Literal["uniform", "normal"]

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class _Sizes:
    """What every generator has."""

    module: ClassVar[str]  # FILE.CLASS in this package

    latent: Annotated[Latent, Field(description="distribution of the latents")] = "normal"
    latent_dim: Annotated[int, Field(ge=1, description="latent dimensions")] = 16


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DcganConfig(_Sizes):
    """Sizes of the convolutional generator; the defaults are those of the released code."""

    module: ClassVar[str] = "dcgan.DcganGenerator"

    kind: Literal["dcgan"]
    latent: Annotated[Latent, Field(description="distribution of the latents")] = "uniform"
    embedding_dim: Annotated[int, Field(ge=1, description="dimensions of a label's embedding")] = 8
    width: Annotated[int, Field(ge=1, description="channels before the last convolution")] = 64


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class _HiddenLayers(_Sizes):
    """Sizes of fully connected layers under a label's embedding."""

    embedding_dim: Annotated[int, Field(ge=1, description="dimensions of a label's embedding")] = 16
    width: Annotated[int, Field(ge=1, description="units of a hidden layer")] = 256
    num_hidden: Annotated[int, Field(ge=1, le=8, description="hidden layers")] = 2


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class MlpConfig(_HiddenLayers):
    """Sizes of the fully connected generator."""

    module: ClassVar[str] = "mlp.MlpGenerator"

    kind: Literal["mlp"]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ConvEmbeddingConfig(_Sizes):
    """Sizes of the generator; the defaults are the trial's."""

    module: ClassVar[str] = "conv_embedding.ConvEmbeddingGenerator"

    kind: Literal["conv-embedding"]
    embedding_dim: Annotated[int, Field(ge=1, description="dimensions of a label's embedding")] = 8
    width: Annotated[int, Field(ge=1, description="channels before the last convolution")] = 64


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpMerfConfig(_Sizes):
    """Sizes of DP-MERF's generator; the defaults are the paper's for 28 x 28 images."""

    module: ClassVar[str] = "dp_merf.DpMerfGenerator"

    kind: Literal["dp-merf"]
    latent_dim: Annotated[int, Field(ge=1, description="latent dimensions")] = 10
    width: Annotated[int, Field(ge=2, description="channels before the first convolution")] = 16


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DpSwdConfig(_Sizes):
    """Sizes of the decoder; the defaults give a first map of 512 x 4 x 4 at 64 x 64."""

    module: ClassVar[str] = "dp_swd.DpSwdGenerator"

    kind: Literal["dp-swd"]
    latent_dim: Annotated[int, Field(ge=1, description="latent dimensions")] = 32
    width: Annotated[int, Field(ge=1, description="channels before the last convolution")] = 64
    enlarged: Annotated[
        int, Field(ge=1, le=64, description="pixels a side of each that is made, smoothly enlarged")
    ] = 1


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ResidualConfig(_Sizes):
    """Sizes of the residual generator; the defaults are those of the released code."""

    module: ClassVar[str] = "residual.ResidualGenerator"

    kind: Literal["residual"]
    latent_dim: Annotated[int, Field(ge=1, description="latent dimensions")] = 32
    width: Annotated[int, Field(ge=1, description="channels of a block")] = 256
    wide_side: Annotated[
        int, Field(ge=1, description="maps longer than this have half the channels a doubling")
    ] = 1024


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class DecodedConfig(_HiddenLayers):
    """Sizes of the generator of codes; those of its decoder are the mechanism's."""

    module: ClassVar[str] = "decoded.DecodedGenerator"

    kind: Literal["decoded"]
    hidden_width: Annotated[int, Field(ge=1, description="hidden units of the released decoder")]
    code_width: Annotated[int, Field(ge=1, description="entries of a code of the decoder")]


AnyGeneratorConfig: TypeAlias = (
    DcganConfig
    | MlpConfig
    | ConvEmbeddingConfig
    | DecodedConfig
    | DpMerfConfig
    | DpSwdConfig
    | ResidualConfig
)
GeneratorConfig = Annotated[AnyGeneratorConfig, Field(discriminator="kind")]
GENERATOR_CONFIGS: tuple[type[AnyGeneratorConfig], ...] = get_args(AnyGeneratorConfig)
