"""Annealing schedules: fixed lists of temperatures that depend on public facts only.

A schedule never looks at a point cloud. Its length is the number of Sinkhorn updates, the same
for every private batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from curator.privacy.records import ImageSpace

_SCALING = 0.5
_SLOW_SCALING = 0.97
_OVERRELAXATION = 1.6
_NUM_OVERRELAXED = 800
_NUM_POLISHING = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Temperatures of the updates, the last one being the regularisation itself.

    `relaxations` holds a factor per update: None is one averaged update of both potentials at
    once, a number w an update of f, then of g, each moved by w times its Sinkhorn step.
    """

    temperatures: tuple[float, ...]
    relaxations: tuple[float | None, ...]

    def __post_init__(self) -> None:
        """Check the lists.

        Raises:
            ValueError: If the lists are empty, differ in length, or a temperature is not positive.
        """
        if not self.temperatures or len(self.temperatures) != len(self.relaxations):
            msg = "a schedule needs as many relaxations as temperatures, at least one"
            raise ValueError(msg)
        if not all(0 < temperature < math.inf for temperature in self.temperatures):
            msg = "temperatures must be positive and finite"
            raise ValueError(msg)

    @property
    def reg(self) -> float:
        """The entropic regularisation that the schedule ends at, in cost units."""
        return self.temperatures[-1]

    @property
    def is_symmetric(self) -> bool:
        """Whether swapping the clouds swaps the potentials: every update is averaged."""
        return all(relaxation is None for relaxation in self.relaxations)


def public_diameter(space: ImageSpace, label_scale: float) -> float:
    """Return the bounding-box diagonal of every possible cloud of labelled images.

    Args:
        space: Pixels lie in [-1, 1]; one-hot labels have `num_classes` coordinates.
        label_scale: alpha, the length of a one-hot label.

    Returns:
        sqrt(4 D + K alpha^2), a constant of the image space.
    """
    return math.sqrt(4 * space.dimension + space.num_classes * label_scale**2)


def published(diameter: float, reg: float) -> Schedule:
    """Return the published method's list D, D, D/2, D/4, ... > reg, reg.

    It is far from convergence at small `reg`; the published results rely on that.

    Args:
        diameter: D > 0, where the annealing starts.
        reg: Regularisation it ends at, in cost units.

    Returns:
        A schedule of averaged simultaneous updates.

    References:
        [cao:21], section 4; [feydy:20], algorithm 3.5.
    """
    temperatures = (diameter, *_geometric(diameter, reg, _SCALING), reg)
    return Schedule(temperatures=temperatures, relaxations=(None,) * len(temperatures))


def converged(diameter: float, reg: float) -> Schedule:
    """Return a list long enough for gradients good to 1e-3, and to 1e-5 from `reg` .5 on.

    Slow annealing, then a fixed number of overrelaxed updates at `reg`, then a few plain ones.
    Measured for 50 images of 784 pixels; larger problems converge more slowly.

    Args:
        diameter: D > 0, where the annealing starts.
        reg: Regularisation it ends at, in cost units.

    Returns:
        A schedule of alternating updates.

    References:
        [thibault:21], algorithm 2 (overrelaxation).
    """
    cooling = (*_geometric(diameter, reg, _SLOW_SCALING), *(reg,) * _NUM_OVERRELAXED)
    polishing = (reg,) * _NUM_POLISHING
    return Schedule(
        temperatures=cooling + polishing,
        relaxations=(_OVERRELAXATION,) * len(cooling) + (1.0,) * len(polishing),
    )


def _geometric(start: float, stop: float, ratio: float) -> tuple[float, ...]:
    """Return start, start * ratio, start * ratio^2, ... as long as they exceed `stop`."""
    temperatures = []
    temperature = start
    while temperature > stop:
        temperatures.append(temperature)
        temperature *= ratio
    return tuple(temperatures)
