"""A Gaussian for each class in public features: what a release of their statistics says.

The classifier of these Gaussians is in closed form: linear where all classes share their second
moments. It is what a classifier becomes that is trained on features drawn from them.

Shapes: N images, K classes, R features, S directions, H moment matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from analyst.embedding.feature_maps import FeatureMap
from analyst.embedding.file import SavedEmbedding
from analyst.embedding.offline import class_counts, class_means, map_of
from analyst.errors import EmbeddingError
from analyst.generators.generator import ImageShape

RIDGE = 0.3
_LEAST = 1e-9


def split_statistics(
    values: Tensor, parameters: Mapping[str, Any], shape: ImageShape
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the directions and moment matrices of a release, and the class-wise sums.

    Args:
        values: The release: rows of directions, of matrices, then one of sums for each class.
        parameters: Of the mechanism `feature-statistics`.
        shape: Public facts of the data set.

    Returns:
        `directions` [R, S] and `matrices` [H, S, S] by name, and sums [K, R + 1]; float64.

    Raises:
        ValueError: If the release has other rows.
    """
    width, num_classes = parameters["moment_width"], shape.num_classes
    matrices = 1 if parameters["moments"] == "together" else num_classes
    if len(values) != width * (1 + matrices) + num_classes or values.shape[1] <= width:
        msg = "the release has other rows than its parameters say"
        raise ValueError(msg)
    moments = {
        "directions": values[:width, :-1].T.contiguous(),
        "matrices": values[width:-num_classes, :width].reshape(matrices, width, width).clone(),
    }
    return moments, values[-num_classes:].clone()


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ClassGaussians:
    """Means [K, S] and covariances [H, S, S] of each class in the released directions.

    `counts_K` are released too. `rows_of` is the map of images to features.
    """

    rows_of: FeatureMap
    directions_RS: Tensor
    means_KS: Tensor
    covariances_HSS: Tensor
    counts_K: Tensor

    @classmethod
    def of(cls, embedding: SavedEmbedding, ridge: float = RIDGE) -> ClassGaussians:
        """Return what a release says.

        Args:
            embedding: Of the mechanism `feature-statistics`, with its network.
            ridge: Added to each variance, times their mean: noise hides the small ones.

        Raises:
            EmbeddingError: If it is another mechanism's, or has no network.
        """
        if not embedding.moments:
            message = f"the release of run {embedding.run_id} has no second moments"
            raise EmbeddingError(message, "Give one of the mechanism feature-statistics.")
        directions_RS = embedding.moments["directions"]
        matrices_HSS = embedding.moments["matrices"]
        values_HS, vectors_HSS = torch.linalg.eigh((matrices_HSS + matrices_HSS.mT) / 2)
        values_HS = values_HS.clamp_min(0)
        values_HS = values_HS + ridge * values_HS.mean(dim=1, keepdim=True) + _LEAST
        return cls(
            rows_of=map_of(embedding),
            directions_RS=directions_RS,
            means_KS=class_means(embedding) @ directions_RS,
            covariances_HSS=(vectors_HSS * values_HS.unsqueeze(1)) @ vectors_HSS.mT,
            counts_K=class_counts(embedding),
        )

    def classifier(self) -> nn.Module:
        """Return the module that gives images [N, C, H, W] a score for each class."""
        return _Bayes(self)

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return features drawn from the Gaussians in the directions, and their classes.

        Args:
            count: N, shared among classes as released counts are.
            generator: The randomness.

        Returns:
            float64 rows [N, S] and labels [N].
        """
        labels_N = torch.multinomial(self.counts_K, count, replacement=True, generator=generator)
        width = self.means_KS.shape[1]
        drawn_NS = torch.randn((count, width), generator=generator, dtype=torch.float64)
        roots_HSS = torch.linalg.cholesky(self.covariances_HSS)
        roots_KSS = roots_HSS.expand(len(self.means_KS), -1, -1)
        apart_NS = (roots_KSS[labels_N] @ drawn_NS.unsqueeze(2)).squeeze(2)
        return self.means_KS[labels_N] + apart_NS, labels_N


@final
class _Bayes(nn.Module):
    """Log densities of Gaussians, times the shares of classes."""

    def __init__(self, gaussians: ClassGaussians) -> None:
        """Invert the covariances once."""
        super().__init__()
        self._gaussians = gaussians
        covariances_HSS = gaussians.covariances_HSS
        self._inverses_HSS = torch.linalg.inv(covariances_HSS)
        shares_K = gaussians.counts_K / gaussians.counts_K.sum()
        self._constants_K = shares_K.log() - torch.linalg.slogdet(covariances_HSS).logabsdet / 2

    def forward(self, images_NCHW: Tensor) -> Tensor:
        """Return scores [N, K], float64."""
        gaussians = self._gaussians
        with torch.no_grad():
            rows_NR = gaussians.rows_of(images_NCHW).to(torch.float64)
        inside_NS = rows_NR @ gaussians.directions_RS
        apart_KNS = inside_NS - gaussians.means_KS.unsqueeze(1)
        squares_KN = ((apart_KNS @ self._inverses_HSS) * apart_KNS).sum(dim=2)
        scores_NK: Tensor = self._constants_K - squares_KN.T / 2
        return scores_NK
