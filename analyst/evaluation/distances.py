"""Frechet distance of features and inception score of probabilities: the formulas alone.

Shapes: N rows, M rows, D features, K classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def frechet_distance(features_ND: npt.NDArray[Any], others_MD: npt.NDArray[Any]) -> float:
    """Return the squared Frechet distance between Gaussians fitted to two sets of features.

    Args:
        features_ND: One row per image, at least 2.
        others_MD: The other set, at least 2 rows.

    Returns:
        |mean difference|^2 + tr(A + B - 2 (A B)^(1/2)), at least 0; biased upwards for few rows.

    Raises:
        ValueError: If a set has fewer than 2 rows.

    References:
        [heusel:17], equation 6.
    """
    if min(len(features_ND), len(others_MD)) < 2:
        msg = "a Frechet distance needs at least 2 images in each set"
        raise ValueError(msg)
    mean_D, cov_DD = _moments(features_ND)
    other_mean_D, other_cov_DD = _moments(others_MD)
    root_DD = _square_root(cov_DD)
    # the trace of (A B)^(1/2) is that of (A^(1/2) B A^(1/2))^(1/2), which is symmetric
    eigenvalues = np.linalg.eigvalsh(root_DD @ other_cov_DD @ root_DD)
    cross = np.sqrt(np.clip(eigenvalues, 0, None)).sum()
    distance = np.sum((mean_D - other_mean_D) ** 2)
    distance += np.trace(cov_DD) + np.trace(other_cov_DD) - 2 * cross
    return max(0.0, float(distance))


def inception_score(probabilities_NK: npt.NDArray[Any], *, num_splits: int = 10) -> float:
    """Return exp of the mean divergence of a row from the mean row, averaged over splits.

    Args:
        probabilities_NK: Class probabilities, one row per image.
        num_splits: Equal parts, in the order given.

    References:
        [salimans:16], section 4.
    """
    scores = []
    for part in np.array_split(np.asarray(probabilities_NK, dtype=np.float64), num_splits):
        if len(part):
            logs = np.log(np.clip(part, 1e-16, None))
            mean_log = np.log(np.clip(part.mean(axis=0), 1e-16, None))
            scores.append(np.exp(np.mean(np.sum(part * (logs - mean_log), axis=1))))
    return float(np.mean(scores))


def _moments(features_ND: npt.NDArray[Any]) -> tuple[Matrix, Matrix]:
    exact = np.asarray(features_ND, dtype=np.float64)
    return exact.mean(axis=0), np.atleast_2d(np.cov(exact, rowvar=False))


def _square_root(symmetric_DD: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(symmetric_DD)
    root: Matrix = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root
