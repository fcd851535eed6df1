"""A plan over a range: one row for each number of steps, each epsilon or each noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from curator.errors import MalformedRequest
from curator.mechanisms.base import ServedMechanism
from curator.planning.noise import LEAST, MOST, noise_for
from curator.planning.pricing import Allowance, Price

MOST_POINTS: Final = 50
_NOISE_SPAN: Final = 4.0
_REHEARSED: Final = 1000


class Axis(StrEnum):
    """What differs from row to row."""

    STEPS = "steps"
    EPSILON = "epsilon"
    NOISE = "noise"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanPoint:
    """One row."""

    noise_multiplier: float
    num_steps: int
    epsilon_after: float
    fits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Which rows are asked, around what was planned."""

    axis: Axis
    points: int
    num_steps: int | None  # asked, or None where the steps follow from an epsilon
    epsilon: float
    noise_multiplier: float


def plan_points(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], grid: Grid
) -> tuple[PlanPoint, ...]:
    """Return the rows, in order of what differs."""
    match grid.axis:
        case Axis.STEPS:
            return tuple(_over_steps(allowance, parse, grid))
        case Axis.EPSILON:
            return tuple(_over_epsilon(allowance, parse, grid))
        case Axis.NOISE:
            return tuple(_over_noise(allowance, parse, grid))


def _over_steps(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], grid: Grid
) -> Iterator[PlanPoint]:
    price = Price.of(parse(grid.noise_multiplier))
    affordable = allowance.affordable_steps(price)
    most = 1 if price.step.is_zero else max(affordable, grid.num_steps or 1)
    if allowance.facts.rehearsal and not price.step.is_zero:  # no end of steps is affordable
        most = 2 * (grid.num_steps or _REHEARSED)
    for count in sorted({max(1, round(most * part)) for part in _parts(grid.points)}):
        yield _point(allowance, price, grid.noise_multiplier, count, affordable)


def _over_epsilon(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], grid: Grid
) -> Iterator[PlanPoint]:
    price = Price.of(parse(grid.noise_multiplier))
    affordable = allowance.affordable_steps(price)
    spent = allowance.rule.spent_epsilon(allowance.reserved)
    for part in _parts(grid.points):
        target = spent + (grid.epsilon - spent) * part
        if target <= 0:
            continue
        if price.step.is_zero:
            yield from _release_for(allowance, parse, grid.noise_multiplier, target)
        else:
            count = allowance.steps_to(price, target)
            yield _point(allowance, price, grid.noise_multiplier, count, affordable)


def _release_for(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], guess: float, epsilon: float
) -> Iterator[PlanPoint]:
    """Yield the one release that an epsilon buys: what it buys is less noise."""
    with suppress(MalformedRequest):  # no noise is enough
        noise = noise_for(allowance, parse, 1, epsilon, guess=guess)
        price = Price.of(parse(noise))
        yield _point(allowance, price, noise, 1, allowance.affordable_steps(price))


def _over_noise(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], grid: Grid
) -> Iterator[PlanPoint]:
    """Yield rows of a quarter to four times the noise, evenly apart in their ratio."""
    for part in _parts(grid.points, least=0.0):
        ratio = math.pow(_NOISE_SPAN, 2 * part - 1)
        noise = float(f"{min(MOST, max(LEAST, grid.noise_multiplier * ratio)):.4g}")
        try:
            mechanism = parse(noise)
        except MalformedRequest:  # more than the mechanism takes
            return
        price = Price.of(mechanism)
        affordable = allowance.affordable_steps(price) if allowance.allow(mechanism) else 0
        count = 1 if price.step.is_zero else grid.num_steps
        if count is None:
            count = allowance.steps_to(price, grid.epsilon)
        yield _point(allowance, price, noise, count, affordable)


def _parts(points: int, least: float | None = None) -> list[float]:
    """Return numbers up to 1, evenly apart; from the first step, or from `least`."""
    if least is None:
        return [(index + 1) / points for index in range(points)]
    return [least + (1 - least) * index / max(1, points - 1) for index in range(points)]


def _point(
    allowance: Allowance, price: Price, noise: float, count: int, affordable: int
) -> PlanPoint:
    return PlanPoint(
        noise_multiplier=noise,
        num_steps=count,
        epsilon_after=allowance.epsilon_after(price, count),
        fits=0 < count <= affordable and not allowance.obstacle,
    )
