"""Schedules are public lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from curator.divergences.schedule import Schedule, converged, public_diameter, published
from curator.privacy.batches import ImageSpace

MNIST = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)


def test_published_repeats_the_diameter_then_halves_down_to_reg() -> None:
    assert published(10.0, 2.0).temperatures == (10.0, 10.0, 5.0, 2.5, 2.0)
    assert set(published(10.0, 2.0).relaxations) == {None}


def test_published_has_thirteen_updates_on_mnist() -> None:
    assert len(published(public_diameter(MNIST, 15.0), 0.05).temperatures) == 13


def test_public_diameter_spans_the_whole_image_space() -> None:
    assert public_diameter(MNIST, 15.0) == math.sqrt(4 * 784 + 10 * 225)


@pytest.mark.parametrize("make", [published, converged])
def test_schedules_never_heat_up_and_end_at_reg(make: Callable[[float, float], Schedule]) -> None:
    schedule = make(73.4, 0.05)
    temperatures = (*schedule.temperatures, *schedule.newton_temperatures)
    assert temperatures[-1] == schedule.reg == 0.05
    assert all(a >= b for a, b in pairwise(temperatures))


@pytest.mark.parametrize(
    ("temperatures", "relaxations"),
    [((), ()), ((1.0,), ()), ((0.0,), (None,)), ((math.nan,), (None,)), ((math.inf,), (1.0,))],
)
def test_bad_lists_are_refused(
    temperatures: tuple[float, ...], relaxations: tuple[float | None, ...]
) -> None:
    with pytest.raises(ValueError, match="temperatures"):
        Schedule(temperatures=temperatures, relaxations=relaxations)
