"""The curator's named feature maps, from the parameters of a run and the shape of its images.

The curator has its own implementation in exact arithmetic; this one shares no code with it, and a
test holds both together.

Shapes: N images, C channels, H height, W width, R = 2F features (cosines, then sines), N rows, D
inputs, F frequencies.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor

from analyst.embedding.orthogonal import OrthogonalFrequencies
from analyst.embedding.scattering import num_coefficients, scattering
from analyst.errors import EmbeddingError
from analyst.generators.generator import ImageShape

FeatureMap = Callable[[Tensor], Tensor]
"""From images [N, C, H, W] in [-1, 1] to rows [N, R] of norm 1."""

_SCATTERING_STREAM = 32


def feature_map(parameters: Mapping[str, Any], shape: ImageShape) -> FeatureMap:
    """Return the map that a run of the mechanism `mean-embedding` was opened with.

    Returns:
        The map; scattering first where there are both. Of `dp-merf-ae` the map of codes [N, E].
    """
    return joined(fourier_parts(parameters, shape))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class FourierPart:
    """One of the maps side by side: features of what a transform makes of images."""

    transform: FeatureMap
    features: FourierFeatures
    share: float  # of the squared norm


def fourier_parts(parameters: Mapping[str, Any], shape: ImageShape) -> list[FourierPart]:
    """Return the parts of the map of a run, in the order of their features."""
    if "code_width" in parameters:
        codes = FourierFeatures(
            parameters["code_width"],
            parameters["num_features"],
            parameters["bandwidths"],
            seed=parameters["feature_seed"],
            stream=0,
        )
        return [FourierPart(transform=_themselves, features=codes, share=1.0)]
    seed, name = parameters["feature_seed"], parameters["feature_map"]
    is_mixed, is_of_scattering = name.startswith("mix"), name.startswith("scattering")
    share = parameters["scattering_share"] if is_mixed else float(is_of_scattering)
    are_orthogonal = name.endswith("sorf")
    parts: list[FourierPart] = []
    if share > 0:
        waves = FourierFeatures(
            num_coefficients(shape.channels, shape.height, shape.width),
            parameters["num_scattering_features"],
            parameters["scattering_bandwidths"],
            seed=seed,
            stream=_SCATTERING_STREAM,
            are_orthogonal=are_orthogonal,
        )
        parts.append(FourierPart(transform=scattering, features=waves, share=share))
    if share < 1:
        pixels = FourierFeatures(
            shape.channels * shape.height * shape.width,
            parameters["num_features"],
            parameters["bandwidths"],
            seed=seed,
            stream=0,
            are_orthogonal=are_orthogonal,
        )
        parts.append(FourierPart(transform=_pixels, features=pixels, share=1 - share))
    return parts


def joined(parts: Sequence[FourierPart]) -> FeatureMap:
    """Return the map that parts make side by side."""

    def rows_of(images: Tensor) -> Tensor:
        rows = [part.features(part.transform(images)) * math.sqrt(part.share) for part in parts]
        return torch.cat(rows, dim=1)

    return rows_of


def _themselves(codes_NE: Tensor) -> Tensor:
    return codes_NE


def _pixels(images_NCHW: Tensor) -> Tensor:
    return images_NCHW.flatten(1)


_DOMAIN = "weir random fourier features v1"
_GRID = 2.0**-12


def draw_normals(seed: int, stream: int, num_rows: int, dimension: int) -> Tensor:
    """Return public standard normal draws on a grid of 2^-12.

    Args:
        seed: Public seed.
        stream: Which of the independent streams under the seed.
        num_rows: F.
        dimension: D.

    Returns:
        [F, D], float32, exact. SHAKE-256 makes 53-bit uniform numbers of the seed, two of them make
        two normal ones by Box and Muller, and rounding hides how libraries differ.
    """
    num_pairs = (num_rows * dimension + 1) // 2
    text = f"{_DOMAIN}|{seed}|{stream}".encode("ascii")
    stretched = hashlib.shake_256(text).digest(16 * num_pairs)
    uniform = (np.frombuffer(stretched, dtype="<u8") >> 11).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log((uniform[:, 0] + 1) * 2.0**-53))
    angle = 2.0 * math.pi * (uniform[:, 1] * 2.0**-53)
    normals = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1).reshape(-1)
    rounded = np.rint(normals[: num_rows * dimension] / _GRID) * _GRID
    return torch.from_numpy(rounded.astype(np.float32).reshape(num_rows, dimension))


class Frequencies(Protocol):
    """Directions of features, divided by their bandwidths."""

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return phases [N, F] in the dtype of the inputs; differentiable."""
        ...

    @property
    def number(self) -> int:
        """F."""
        ...


@final
class GaussianFrequencies:
    """Independent Gaussian numbers, in a matrix."""

    def __init__(self, matrix_DF: Tensor) -> None:
        """Keep them."""
        self.matrix_DF = matrix_DF

    @property
    def number(self) -> int:
        """F."""
        return self.matrix_DF.shape[1]

    def products(self, inputs_ND: Tensor) -> Tensor:
        """Return phases [N, F]."""
        self.matrix_DF = self.matrix_DF.to(inputs_ND.device)
        return inputs_ND @ self.matrix_DF.to(inputs_ND.dtype)


@final
class FourierFeatures:
    """Cosines and sines at random frequencies, an equal share of them for each bandwidth."""

    def __init__(
        self,
        dimension: int,
        num_features: int,
        bandwidths: Sequence[float],
        *,
        seed: int,
        stream: int,
        are_orthogonal: bool = False,
    ) -> None:
        """Draw the frequencies.

        Args:
            dimension: D.
            num_features: 2F, a multiple of twice the number of bandwidths.
            bandwidths: Kernel scales in units of the inputs.
            seed: Public seed.
            stream: Of the first bandwidth; the others follow.
            are_orthogonal: Whether they are structured orthogonal ones, all of one stream.
        """
        share = num_features // (2 * len(bandwidths))
        self.frequencies: Frequencies
        if are_orthogonal:
            inverse_F = torch.repeat_interleave(1 / torch.tensor(bandwidths), share)
            self.frequencies = OrthogonalFrequencies(dimension, inverse_F, seed=seed, stream=stream)
        else:
            parts = [
                draw_normals(seed, stream + index, share, dimension).T / bandwidth
                for index, bandwidth in enumerate(bandwidths)
            ]
            self.frequencies = GaussianFrequencies(torch.cat(parts, dim=1).contiguous())
        self._amplitude = 1 / math.sqrt(self.frequencies.number)

    def every(self, num_turns: int, turn: int) -> tuple[FourierFeatures, Tensor]:
        """Return every n-th of the frequencies, and the places of their features among all.

        Args:
            num_turns: n: how many such sets there are.
            turn: Which of them.

        Returns:
            Features of squared norm 1 / `num_turns`, up to a rest of the division.

        Raises:
            EmbeddingError: If the frequencies have products only together.
        """
        if not isinstance(self.frequencies, GaussianFrequencies):
            message = (
                "training.turns is of Gaussian frequencies; orthogonal ones are quick together"
            )
            raise EmbeddingError(message, "Train with --set training.turns=1.")
        cosines = torch.arange(turn, self.frequencies.number, num_turns)
        chosen = copy(self)
        matrix_DF = self.frequencies.matrix_DF[:, cosines].contiguous()
        chosen.frequencies = GaussianFrequencies(matrix_DF)
        return chosen, torch.cat((cosines, self.frequencies.number + cosines))

    def __call__(self, inputs_ND: Tensor) -> Tensor:
        """Return features [N, 2F] of norm 1; differentiable."""
        phases_NF = self.frequencies.products(inputs_ND)
        rows_N2F: Tensor = _Waves.apply(phases_NF, self._amplitude)  # type: ignore[no-untyped-call]
        return rows_N2F


class _Waves(torch.autograd.Function):
    """Cosines, then sines, times an amplitude; the slopes are made of what was returned."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, phases_NF: Tensor, amplitude: float
    ) -> Tensor:
        num_frequencies = phases_NF.shape[1]
        rows_N2F = phases_NF.new_empty((len(phases_NF), 2 * num_frequencies))
        torch.cos(phases_NF, out=rows_N2F[:, :num_frequencies])
        torch.sin(phases_NF, out=rows_N2F[:, num_frequencies:])
        rows_N2F *= amplitude
        ctx.save_for_backward(rows_N2F)
        return rows_N2F

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, slopes_N2F: Tensor
    ) -> tuple[Tensor, None]:
        (rows_N2F,) = ctx.saved_tensors  # type: ignore[attr-defined]
        cosines, sines = rows_N2F.chunk(2, dim=1)
        of_cosines, of_sines = slopes_N2F.chunk(2, dim=1)
        return (cosines * of_sines).addcmul_(sines, of_cosines, value=-1), None
