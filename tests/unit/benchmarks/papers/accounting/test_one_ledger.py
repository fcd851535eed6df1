"""What FETA-Pro costs as published: claimed 10 and 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.accounting.one_ledger import ThreeParts, parts_bounds, training_noise
from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.words import setting_lines

DELTA = 1 / (55_000 * math.log(55_000))
AT_TEN: dict[str, Any] = {
    "image_noise": 5.0,
    "image_rate": 6000 / 55_000,
    "num_images": 5,
    "embedding_noise": 7.4,
    "training_rate": 1 / 14,
    "training_steps": 2100,
    "drawn_rate": 6000 / 55_000,
    "class_share": 1.0,
}
AT_ONE = AT_TEN | {"image_noise": 20.0, "embedding_noise": 26.6}
FIVES = {"drawn_rate": 0.1, "class_share": 5421 / 60_000 * 55_000 * 0.1 / 600}


def test_its_delta_is_that_of_its_records() -> None:
    assert pytest.approx(1.66575e-6, rel=1e-5) == DELTA


@pytest.mark.parametrize(
    ("parameters", "epsilon", "noise", "losses"),
    [(AT_TEN, 10.0, 1.9995, 9.344), (AT_ONE, 1.0, 14.844, 0.9203)],
)
def test_its_ledger_holds_for_what_it_is_told(
    parameters: dict[str, Any], epsilon: float, noise: float, losses: float
) -> None:
    bounds = parts_bounds(ThreeParts(**parameters), epsilon, DELTA)
    assert bounds.training_noise == pytest.approx(noise, rel=1e-4)
    assert epsilon - 0.01 <= bounds.reported <= epsilon
    assert bounds.renyi == bounds.reported
    assert bounds.losses == pytest.approx(losses, rel=1e-3)
    assert bounds.losses < bounds.renyi


def test_a_smaller_class_has_less_noise_and_costs_hardly_more() -> None:
    told = parts_bounds(ThreeParts(**AT_TEN), 10.0, DELTA)
    fives = parts_bounds(ThreeParts(**AT_TEN | FIVES), 10.0, DELTA)
    assert FIVES["class_share"] == pytest.approx(0.8282, abs=1e-4)
    assert fives.training_noise == told.training_noise  # its accountant does not know
    assert told.losses < fives.losses < 1.001 * told.losses
    assert fives.losses < 10.0


def test_there_is_no_bound_of_all_data() -> None:
    """Of a class with two sampled records the mean has a three-hundredth of the noise."""
    pair = ThreeParts(**AT_TEN | {"class_share": 2 / 600})
    assert pair.event(2.0).in_turn[0].rdp(2.0) > 1000


def test_a_mean_moves_by_an_image_over_the_number_of_records() -> None:
    """Brute force: with n - 1 records and one more, of norm at most 1."""
    rng = np.random.default_rng(3)
    for size in (1, 2, 10, 500):
        records = rng.random((size, 9))
        records /= np.linalg.norm(records, axis=1, keepdims=True)
        without = records[:-1].mean(axis=0) if size > 1 else np.zeros(9)
        moved = np.linalg.norm(records.mean(axis=0) - without)
        assert moved <= 1 / size + 1e-12
    extreme = np.concatenate((np.zeros((499, 1)), np.ones((1, 1))))
    assert extreme.mean() - extreme[:-1].mean() == pytest.approx(1 / 500)


def test_what_leaves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="leave nothing"):
        training_noise(ThreeParts(**AT_TEN | {"embedding_noise": 0.1}), 1.0, DELTA)


def test_it_is_told_in_words() -> None:
    table = {"mechanism": "feta-pro-published", "parameters": AT_TEN | FIVES, "num_steps": 1}
    text = "\n".join(setting_lines(read_setting(table, {"epsilon": 10.0, "delta": DELTA})))
    assert "epsilon 9.997" in text
    assert "kept for validation are in none of it" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"image_noise": 0.0},
        {"class_share": -1.0},
        {"drawn_rate": 1.0},
        {"training_rate": 0.0},
        {"num_images": 0},
        {"training_steps": 0},
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ThreeParts(**AT_TEN | changes)
