"""What a curator says about data sets, budgets, plans and runs, as frozen values.

Nothing here knows the wire: `analyst.client.messages` makes these values of what is received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Over = Literal["steps", "epsilon", "noise"]
"""What differs from row to row of a plan's table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """What an image of a data set is, how many there are, and what may be learnt of them.

    All of it was declared by a steward; nothing is read off the private images.
    """

    name: str
    channels: int
    height: int
    width: int
    classes: tuple[str, ...]
    nominal_size: int
    capacity: int
    epsilon: float
    delta: float

    def image(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the name, the shape of an image and the classes."""
        return {
            "name": self.name,
            "channels": self.channels,
            "height": self.height,
            "width": self.width,
            "classes": list(self.classes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, as a saved embedding keeps it."""
        sizes = {"nominal_size": self.nominal_size, "capacity": self.capacity}
        return self.image() | sizes | {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetFacts(ImageFacts):
    """Facts of a data set of one curator, with the limits that its runs must keep."""

    sampling_rate: float
    adjacency: str
    unit: str
    mechanisms: tuple[str, ...]
    parameter_schemas: Mapping[str, Mapping[str, Any]] = field(repr=False)  # by mechanism
    max_samples: int
    policy: tuple[tuple[str, str], ...] = ()  # the steward's rules by name
    rehearsal: bool = False  # public data without a limit: nothing about it is a promise

    def __repr__(self) -> str:
        """What is asked for first; each field has its value."""
        return (
            f"<DatasetFacts {self.name}: {self.nominal_size:,} images of "
            f"{self.channels}x{self.height}x{self.width} in {len(self.classes)} classes, "
            f"epsilon {self.epsilon:g} at delta {self.delta:g}>"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The analyst's own cap below the data set's, and what its runs used of it, measured alone."""

    epsilon: float
    spent: float
    reserved: float
    remaining: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What is left of a data set, over all analysts; every epsilon is at `delta`.

    `epsilon` is what the steward allows now, at most `registered_epsilon`.
    """

    dataset: str
    epsilon: float
    registered_epsilon: float
    delta: float
    spent: float
    reserved: float
    remaining: float
    adjacency: str
    unit: str
    accountant: str
    status: str
    share: Share | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """A run that nobody has opened."""

    mechanism: str
    parameters: Mapping[str, Any]
    num_steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanQuestion:
    """With steps and an epsilon the noise is asked; with neither, all that is left.

    `alone` also asks for the epsilon of the run alone, which takes seconds. All is told as if the
    runs of `before` had been opened. A noise may be asked for a `share` of what is left up to the
    epsilon, above 0 and at most 1, so that runs which follow have the rest.
    """

    num_steps: int | None = None
    epsilon: float | None = None
    alone: bool = False
    over: Over = "steps"
    points: int = 8
    share: float = 1.0
    before: tuple[PlannedRun, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanPoint:
    """One row of a plan's table."""

    noise_multiplier: float
    num_steps: int
    epsilon_after: float
    fits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTotals:
    """What a number of steps would cost, or what an epsilon would buy; asking charges nothing."""

    num_steps: int
    affordable_steps: int
    epsilon_after: float  # of the data set, by the ledger's rule
    epsilon_alone: float  # of this run alone, by privacy loss distributions; 0 if not asked
    remaining: float  # epsilon that is left before the run
    fits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(PlanTotals):
    """The plan of one curator, with a table around it and what it wastes."""

    budget: Budget
    noise_multiplier: float
    points: tuple[PlanPoint, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """A run without what it was opened with; `resume_run` gives the run itself."""

    run_id: str
    dataset: str
    analyst: str
    mechanism: str
    is_open: bool
    num_steps: int
    used_steps: int  # counted as spent
    close_reason: str  # empty while the run is open
    opened_at: str  # ISO 8601 in UTC
    closed_at: str
    one_release: bool = False  # all that is charged; the steps are free


@dataclass(frozen=True, kw_only=True, slots=True)
class RunList:
    """Runs: open ones first, and of each kind the last opened first."""

    runs: tuple[RunSummary, ...]
    num_left_out: int  # older closed ones
