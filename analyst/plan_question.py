"""What a plan is asked: steps, an epsilon, or both; and which rows around the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Over = Literal["steps", "epsilon", "noise"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanQuestion:
    """With steps and an epsilon the noise is asked; with neither, all that is left.

    `alone` also asks for the epsilon of the run alone, which takes seconds.
    """

    num_steps: int | None = None
    epsilon: float | None = None
    alone: bool = False
    over: Over = "steps"
    points: int = 8
