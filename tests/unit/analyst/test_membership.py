"""Membership inference: by chance where nothing was learned, above it where images are copied."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from analyst.evaluation.attack_figures import Interval, Shuffled
from analyst.evaluation.membership import (
    Membership,
    check_publicly,
    infer_membership,
    num_copies,
    repeated,
)

Rows = npt.NDArray[np.uint8]


def images(count: int, seed: int) -> Rows:
    """Draw from one law: five smooth patterns, each with much of its own."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(128, 40, (5, 36))
    rows = centres[rng.integers(5, size=count)] + rng.normal(0, 25, (count, 36))
    return np.clip(np.rint(rows), 0, 255).astype(np.uint8)


def attacked(synthetic: Rows, members: Rows, held_out: Rows) -> Membership:
    return infer_membership(synthetic, members, held_out, copies=num_copies(synthetic, [members]))


def test_images_of_the_same_law_are_at_chance() -> None:
    names = ("named", "named_beside_others")
    inside = dict.fromkeys(names, 0)
    outside = {"nearer": 0, "distance_ratio": 0}
    alarms = 0
    for seed in range(12):
        found = attacked(
            images(400, 3 * seed), images(200, 3 * seed + 1), images(200, 3 * seed + 2)
        )
        for name in names:
            one: Interval = getattr(found, name)
            inside[name] += one.low <= 0.5 <= one.high
        for name in ("nearer", "distance_ratio"):
            figure: Shuffled = getattr(found, name)
            outside[name] += not figure.chance.low <= figure.value <= figure.chance.high
            assert figure.chance.low < figure.chance.value < figure.chance.high
        alarms += len(found.alarms)
        assert found.num_copies == 0
    least = int(binom.ppf(1e-6, 12, 0.95))
    assert all(count >= least for count in inside.values()), inside
    assert all(count <= binom.ppf(1 - 1e-6, 12, 0.05) for count in outside.values()), outside
    assert alarms <= binom.ppf(1 - 1e-6, 12 * 6, 0.025)


@pytest.mark.parametrize("noise", [0.0, 6.0])
def test_copies_light_up_in_every_figure(noise: float) -> None:
    members, held_out = images(300, 1), images(300, 2)
    rng = np.random.default_rng(3)
    copied = members[rng.integers(300, size=900)] + rng.normal(0, noise, (900, 36))
    found = attacked(np.clip(np.rint(copied), 0, 255).astype(np.uint8), members, held_out)
    assert found.num_copies == (900 if noise == 0 else 0)
    assert found.nearer.value > 0.9 > found.nearer.chance.high
    assert found.named.low > 0.8
    assert found.named_beside_others.low > 0.8
    assert found.distance_ratio.value < min(0.3, found.distance_ratio.chance.low)
    assert found.caught.low > found.false_alarms.high
    assert len(found.alarms) == (6 if noise == 0 else 5)


def test_copies_of_held_out_images_are_no_alarm() -> None:
    members, held_out = images(300, 1), images(300, 2)
    found = attacked(held_out, members, held_out)
    assert found.alarms == ()
    assert found.nearer.value < 0.1
    assert found.distance_ratio.value > 1e3  # over a distance of nothing


def test_the_draw_is_a_seed_and_sizes_are_made_equal() -> None:
    synthetic, members, held_out = images(300, 1), images(500, 2), images(120, 3)
    found = attacked(synthetic, members, held_out)
    assert found.num_members == 120
    assert found == attacked(synthetic, members, held_out)


def test_few_places_are_no_alarm_more_often_than_many() -> None:
    """A thousand images beside one record are one observation: shuffled sides say so."""
    alarms = 0
    for seed in range(12):
        synthetic = np.repeat(images(2, 3 * seed), 100, axis=0)
        found = attacked(synthetic, images(60, 3 * seed + 1), images(60, 3 * seed + 2))
        alarms += found.nearer.value > found.nearer.chance.high
        alarms += found.distance_ratio.value < found.distance_ratio.chance.low
    assert alarms <= binom.ppf(1 - 1e-6, 24, 0.025)


@pytest.mark.parametrize(("members", "held_out"), [(39, 100), (100, 39), (0, 0)])
def test_too_few(members: int, held_out: int) -> None:
    with pytest.raises(ValueError, match="at least 40"):
        attacked(images(50, 1), images(members, 2), images(held_out, 3))


def test_copies_are_counted_over_parts() -> None:
    members = images(100, 1)
    synthetic = np.concatenate([members[[3, 3, 99]], images(5, 2)])
    assert num_copies(synthetic, [members[:50], members[50:]]) == 3
    assert num_copies(synthetic, []) == 0


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (500, 1000)])
def test_a_proportion_s_interval_is_exact(hits: int, trials: int) -> None:
    found = Interval.of_count(hits, trials)
    assert found.low <= found.value <= found.high
    if hits:
        assert binom.sf(hits - 1, trials, found.low) == pytest.approx(0.025)
    if hits < trials:
        assert binom.cdf(hits, trials, found.high) == pytest.approx(0.025)


def test_repetitions() -> None:
    real = images(400, 1)
    assert repeated(images(400, 2), real).value < 0.05
    assert repeated(np.repeat(images(20, 2), 20, axis=0), real).low > 0.95


def test_the_public_check_halves_the_test_images_or_takes_those_that_were_learned_from() -> None:
    test, learned = images(300, 1), images(300, 2)
    halves = check_publicly(learned, test, None)
    assert halves.members == "half of the test images"
    assert halves.membership.num_members == 150
    found = check_publicly(learned, test, learned)
    assert found.members == "the public images"
    assert found.membership.num_copies == 300
    assert len(found.membership.alarms) == 6
    assert any("by chance 50%" in figure.line() for figure in found.figures())
    with pytest.raises(ValueError, match="80 test images"):
        check_publicly(learned, test[:79], None)
