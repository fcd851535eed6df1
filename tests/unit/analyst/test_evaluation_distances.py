from __future__ import annotations

import numpy as np
import pytest

from analyst.evaluation.distances import frechet_distance, inception_score
from analyst.evaluation.neighbours import check_neighbours, cover


def _exact(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return rows whose sample mean and covariance are exactly these."""
    rows = np.random.default_rng(1).normal(size=(50, len(mean)))
    rows -= rows.mean(axis=0)
    whitening = np.linalg.inv(np.linalg.cholesky(np.cov(rows, rowvar=False))).T
    return np.asarray(rows @ whitening * std + mean)


def test_the_distance_of_two_diagonal_gaussians() -> None:
    first = _exact(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 0.5]))
    second = _exact(np.array([1.0, 0.0, 3.0]), np.array([3.0, 2.0, 1.0]))
    assert frechet_distance(first, second) == pytest.approx(4 + 4 + 0 + 0.25)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-8)
    assert frechet_distance(second, first) == pytest.approx(frechet_distance(first, second))


def test_covariances_that_do_not_commute() -> None:
    randomness = np.random.default_rng(2)
    first, second = (randomness.normal(size=(40, 4)) @ randomness.normal(size=(4, 4)) for _ in "ab")
    a, b = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    cross = np.sqrt(np.linalg.eigvals(a @ b).real).sum()
    expected = np.sum((first.mean(0) - second.mean(0)) ** 2) + np.trace(a + b) - 2 * cross
    assert frechet_distance(first, second) == pytest.approx(expected)


def test_a_dead_feature_and_too_few_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 3)) * [1, 0, 1]
    assert frechet_distance(rows, rows) == pytest.approx(0, abs=1e-8)
    with pytest.raises(ValueError, match="at least 2"):
        frechet_distance(rows[:1], rows)


def test_the_inception_score_counts_confident_classes() -> None:
    assert inception_score(np.tile(np.eye(5), (10, 1))) == pytest.approx(5)
    assert inception_score(np.full((50, 4), 0.25)) == pytest.approx(1)
    assert inception_score(np.eye(3)[[0] * 20]) == pytest.approx(1)


def test_copies_are_found_and_counted() -> None:
    randomness = np.random.default_rng(0)
    public = randomness.integers(0, 256, (200, 16), dtype=np.uint8)
    synthetic = randomness.integers(0, 256, (50, 16), dtype=np.uint8)
    honest = check_neighbours(synthetic, public)
    assert honest.num_copies == 0
    assert honest.share_closer < 0.2
    synthetic[7], synthetic[9] = public[3], public[5]
    copied = check_neighbours(synthetic, public)
    assert copied.num_copies == 2
    assert copied.closest[:2] == ((7, 3), (9, 5))
    assert copied.share_closer >= 2 / 50
    assert len(copied.closest) == 10


def test_distances_are_between_zero_and_one_per_pixel() -> None:
    public = np.zeros((2, 4), np.uint8)
    public[1] = 255
    check = check_neighbours(np.full((1, 4), 51, np.uint8), public)
    assert check.median_synthetic == pytest.approx(0.4)  # .2 in each of 4 pixels
    assert check.median_public == pytest.approx(2.0)
    with pytest.raises(ValueError, match="at least 2 public"):
        check_neighbours(public, public[:1])


def test_density_and_coverage_of_points_on_a_line() -> None:
    real = np.array([[0.0], [1.0], [3.0], [6.0]])  # radii of one neighbour: 1, 1, 2, 3
    found = cover(np.array([[0.5], [2.5]]), real, num_neighbours=1)
    # .5 lies within 0 and 1; 2.5 lies within 3 only
    assert found.density == pytest.approx(3 / 2)
    assert found.coverage == pytest.approx(3 / 4)


def test_density_and_coverage_of_alike_and_of_collapsed_sets() -> None:
    randomness = np.random.default_rng(0)
    real, alike = randomness.normal(size=(2, 500, 4))
    found = cover(alike, real)
    assert 0.9 < found.density < 1.1
    assert found.coverage > 0.9
    collapsed = cover(np.zeros((500, 4)), real)
    assert collapsed.coverage < 0.2
    with pytest.raises(ValueError, match="more than 5"):
        cover(alike, real[:5])
