"""The named feature maps of mean embeddings; none depends on data, and every |phi| is 1.

rff             random Fourier features of the pixels
scattering-rff  random Fourier features of the scattering coefficients
mix             both side by side, their squared norms in public shares
                (sorf in the place of rff, mix-sorf: with structured orthogonal frequencies)
network         what a public network says, each part of it scaled to an equal share of the norm

Each map has two faces: rows of private records in exact integer arithmetic, and rows of public
images in ordinary differentiable floating point.

The loss is the class-wise MMD^2 between given mean embeddings and generated images. Per class:
|mean_k|^2 - 2 mean_k . mu_k + the unbiased estimate of |E phi(generated)|^2, averaged
over the K classes of the image space. A class without rows contributes nothing.

Shape legend: N samples, M records, D pixels, R = 2F features, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from curator.divergences.device import compute_device
from curator.divergences.feature_nets import (
    LARGEST_ENTRY,
    ROW_RADIUS,
    FeatureShape,
    feature_rows,
    image_features,
)
from curator.divergences.random_features import FourierFeatures
from curator.divergences.scattering import MAP_BITS, Scattering
from curator.privacy.toward_zero import toward_zero

ROW_UNITS: Final = (1 << 15) - 1
"""What a norm of 1 is in rows of integers of a network's features: they fit int16."""

_FEATURE_STEP: Final = 2.0**-10
_LARGEST_FEATURE: Final = LARGEST_ENTRY * _FEATURE_STEP
_MARGIN: Final = 1 - 2.0**-30  # keeps rounding inside the ball


class FeatureMap(Protocol):
    """A public map from an image to a row of features of norm 1."""

    @property
    def num_features(self) -> int:
        """Width R of a row."""
        ...

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Bit for bit, row i is a function of record i alone.
        """
        ...

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images in [-1, 1], in their dtype; differentiable."""
        ...


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PixelFeatures:
    """`rff`: frequencies meet the pixels.

    References:
        [harder:21], section 3.
    """

    fourier: FourierFeatures
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Levels are integers; row i is a function of record i alone.
        """
        centred_MD = levels_MD.to(compute_device()).to(torch.float64) * 2 - self.max_level
        return self.fourier.exact_rows(centred_MD, 1 / self.max_level)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        return self.fourier.rows(images_ND)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScatteringFeatures:
    """`scattering-rff`: frequencies meet the scattering coefficients."""

    fourier: FourierFeatures
    scattering: Scattering
    max_level: int

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.fourier.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Coefficients are integers below 2^19; row i is a function of record i alone.
        """
        integers_MS = self.scattering.record_rows(levels_MD.to(compute_device()), self.max_level)
        return self.fourier.exact_rows(integers_MS.to(torch.float64), 2.0**-MAP_BITS)

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        return self.fourier.rows(self.scattering.rows(images_ND))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MixedFeatures:
    """`mix`: two maps side by side; `share` of the squared norm is the first one's."""

    first: FeatureMap
    second: FeatureMap
    share: float

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return self.first.num_features + self.second.num_features

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            Row i is a function of record i alone; its parts have squared norms of at most share and
            1 - share, with room for rounding.
        """
        parts = self.first.record_rows(levels_MD), self.second.record_rows(levels_MD)
        rows_MR = parts[0].new_empty((len(levels_MD), self.num_features))
        targets = torch.split(rows_MR, [part.shape[1] for part in parts], dim=1)
        for part, weight, target in zip(parts, self._weights, targets, strict=True):
            torch.mul(part, weight, out=target)
        return rows_MR

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        first, second = self._weights
        return torch.cat(
            (self.first.rows(images_ND) * first, self.second.rows(images_ND) * second), dim=1
        )

    @property
    def _weights(self) -> tuple[float, float]:
        return math.sqrt(self.share), math.sqrt(1 - self.share)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NetworkFeatures:
    """`network`: averages of maps, or rectified outputs; of no features, a row of zeros."""

    shape: FeatureShape
    weights: Mapping[str, Tensor]

    @property
    def num_features(self) -> int:
        """Width of a row."""
        return sum(self.shape.part_widths)

    def integer_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 integers of norm at most `ROW_UNITS`.

        Privacy:
            Features are integers below 2^16, so that the squares of 2^12 of them are exact; row i
            is a function of record i and the weights alone, bit for bit.
        """
        levels_MD = levels_MD.to(compute_device())
        whole_MR = feature_rows(self.shape, self._weights, levels_MD, ROW_RADIUS * _FEATURE_STEP)
        parts = self._parts(whole_MR)
        radius = ROW_UNITS * _MARGIN / math.sqrt(len(parts))
        scaled = [
            part * (radius / part.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1.0))
            for part in parts
        ]
        return toward_zero(torch.cat(scaled, dim=1))

    def record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return float64 rows of stored levels, of norm at most 1.

        Privacy:
            As for `integer_rows`.
        """
        return self.integer_rows(levels_MD) / ROW_UNITS

    def rows(self, images_ND: Tensor) -> Tensor:
        """Return rows of public images."""
        weights = {name: one.to(images_ND) for name, one in self.weights.items()}
        features_NR = image_features(self.shape, weights, images_ND)
        parts = self._parts(features_NR.clamp(-_LARGEST_FEATURE, _LARGEST_FEATURE))
        return torch.cat([normalize(part, dim=1) for part in parts], dim=1) / math.sqrt(len(parts))

    @property
    def _weights(self) -> dict[str, Tensor]:
        return {name: one.to(compute_device()) for name, one in self.weights.items()}

    def _parts(self, rows_NR: Tensor) -> tuple[Tensor, ...]:
        if self.shape.has_outputs:
            rows_NR = rows_NR.clamp_min(0)
        return torch.split(rows_NR, list(self.shape.part_widths), dim=1)


def class_gradients(
    features: FeatureMap, images_ND: Tensor, labels_N: Tensor, class_means_K2F: Tensor
) -> Tensor:
    """Return the gradient of the mean over classes of the unbiased MMD^2.

    With g rows of a class whose features add up to S, the derivative with respect to one row's
    feature is 2/(K g) (S/(g - 1) - mean); the part of S that is the row's own feature drops out,
    because |phi| is constant. A lone row has no pair, so only the cross term is left.

    Args:
        features: The feature map.
        images_ND: Generated pixels in [-1, 1].
        labels_N: Class indices below K.
        class_means_K2F: Mean embedding that each class should reach.

    Returns:
        Rows (N, D) in the dtype of the images.

    References:
        [gretton:12], equation 4 (unbiased estimate); [harder:21], equation 6.
    """
    device = compute_device()
    labels_N = labels_N.to(device)
    with torch.enable_grad():
        moving_ND = images_ND.detach().to(device).requires_grad_()
        tracked_N2F = features.rows(moving_ND)
    rows_N2F = tracked_N2F.detach()
    means_K2F = class_means_K2F.to(rows_N2F)
    sums_K2F = torch.zeros_like(means_K2F).index_add_(0, labels_N, rows_N2F)
    sizes_K = torch.bincount(labels_N, minlength=means_K2F.shape[0]).to(rows_N2F.dtype)
    paired_K = (sizes_K > 1).to(rows_N2F.dtype) / (sizes_K - 1).clamp_min(1)
    by_feature_K2F = sums_K2F * paired_K.unsqueeze(1) - means_K2F
    scales_K = 2 / (means_K2F.shape[0] * sizes_K.clamp_min(1))
    weights_K2F = by_feature_K2F * scales_K.unsqueeze(1)
    (gradient_ND,) = torch.autograd.grad(tracked_N2F, moving_ND, weights_K2F[labels_N])
    return gradient_ND
