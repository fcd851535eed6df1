"""Nearest neighbours: copies of public images, and how much of a real set is covered.

Neither says anything about the private records. That is the guarantee's work; no test on outputs
replaces it.

Shapes: N synthetic rows, M real rows, D features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

Rows = npt.NDArray[Any]

LARGEST_QUERY = 2000  # synthetic or public rows whose neighbour is looked up
LARGEST_COVER = 5000  # rows of each set for density and coverage
NUM_PAIRS = 10
_CLOSE = 0.01
NUM_NEIGHBOURS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourCheck:
    """Distances to the nearest public image, in pixels of [0, 1]."""

    num_synthetic: int
    num_public: int
    median_synthetic: float  # of synthetic images to the public set
    median_public: float  # of public images to the other public ones
    closest_percent_public: float  # one percent of public images have a nearer neighbour
    share_closer: float  # of the synthetic images, nearer than that; about .01 if they are alike
    num_copies: int  # synthetic images that are a public one, byte for byte
    closest: tuple[tuple[int, int], ...]  # (synthetic, public) rows, nearest first


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Fidelity and diversity of synthetic features beside real ones."""

    num_synthetic: int
    num_real: int
    density: float  # 1 if alike; above 1 if synthetic images crowd where real ones are dense
    coverage: float  # of the real images, the part with a synthetic one in its neighbourhood


def check_neighbours(synthetic_ND: Rows, public_MD: Rows) -> NeighbourCheck:
    """Compare distances of synthetic to public images with those among public ones.

    Args:
        synthetic_ND: Bytes, a row per image; the first 2,000 are looked up.
        public_MD: Bytes, a row per image, at least 2; the first 2,000 are looked up.

    Raises:
        ValueError: If there are fewer than 2 public images.
    """
    if len(public_MD) < 2:
        msg = "a nearest-neighbour check needs at least 2 public images"
        raise ValueError(msg)
    queries = synthetic_ND[:LARGEST_QUERY]
    index = NearestNeighbors(algorithm="brute").fit(_unit(public_MD))
    distances, neighbours = index.kneighbors(_unit(queries), n_neighbors=1)
    # the row itself is among its neighbours, so the second one is the nearest other
    among, _ = index.kneighbors(_unit(public_MD[:LARGEST_QUERY]), n_neighbors=2)
    nearest_N, among_M = distances[:, 0], among[:, 1]
    close = float(np.quantile(among_M, _CLOSE))
    known = {row.tobytes() for row in np.ascontiguousarray(public_MD)}
    order = np.argsort(nearest_N, kind="stable")[:NUM_PAIRS]
    return NeighbourCheck(
        num_synthetic=len(queries),
        num_public=len(public_MD),
        median_synthetic=float(np.median(nearest_N)),
        median_public=float(np.median(among_M)),
        closest_percent_public=close,
        share_closer=float(np.mean(nearest_N < close)),
        num_copies=sum(row.tobytes() in known for row in np.ascontiguousarray(synthetic_ND)),
        closest=tuple((int(row), int(neighbours[row, 0])) for row in order),
    )


def cover(synthetic_ND: Rows, real_MD: Rows, *, num_neighbours: int = NUM_NEIGHBOURS) -> Coverage:
    """Return density and coverage.

    Args:
        synthetic_ND: Features; the first 5,000 are used.
        real_MD: Features of public real images, more than `num_neighbours`; the first 5,000.
        num_neighbours: A real image's neighbourhood reaches to this many others.

    Raises:
        ValueError: If there are too few real images.

    References:
        [naeem:20], equations 4 and 5.
    """
    synthetic, real = (np.asarray(rows, np.float32) for rows in (synthetic_ND, real_MD))
    synthetic, real = synthetic[:LARGEST_COVER], real[:LARGEST_COVER]
    if len(real) <= num_neighbours:
        msg = f"density and coverage need more than {num_neighbours} real images"
        raise ValueError(msg)
    index = NearestNeighbors(algorithm="brute").fit(real)
    radii_M = index.kneighbors(real, n_neighbors=num_neighbours + 1)[0][:, -1]
    inside, covered, start = 0, 0, 0
    for distances in pairwise_distances_chunked(real, synthetic):
        is_inside = distances <= radii_M[start : start + len(distances), None]
        inside += int(is_inside.sum())
        covered += int(is_inside.any(axis=1).sum())
        start += len(distances)
    return Coverage(
        num_synthetic=len(synthetic),
        num_real=len(real),
        density=inside / (num_neighbours * len(synthetic)),
        coverage=covered / len(real),
    )


def _unit(rows: Rows) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = np.asarray(rows, np.float32) / np.float32(255)
    return scaled
