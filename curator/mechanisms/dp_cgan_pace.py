"""How often a generator is given a gradient: the rarer, the worse the critic knows its images.

A public rule on releases: what it reads are the critic, which noised sums made, and images that
were sent. It never sees a record or a count of records, and a step costs the same whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

_STEPS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # from one gradient to the next
_NO_AVERAGE: Final = -1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PaceRule:
    """When gradients become rarer.

    Attributes:
        threshold: The least average share of generated images that the critic is to recognise.
        decay: Weight of the past in that average, which is over gradients.
        grace: Gradients after each change, before the next.
    """

    threshold: float
    decay: float
    grace: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Where a run is: made of public numbers, and kept like the critic.

    Attributes:
        rung: How often gradients became rarer.
        waited: Steps without one since the last.
        gradients: Given since the last change.
        average: Of the shares so far; negative before the first.
    """

    rung: int = 0
    waited: int = 0
    gradients: int = 0
    average: float = _NO_AVERAGE

    @property
    def is_due(self) -> bool:
        """Whether the step that comes is answered with a gradient."""
        return self.waited + 1 >= _STEPS[self.rung]

    def after_step(self, rule: PaceRule | None, share: Callable[[], float]) -> Pace:
        """Return where a run is after a step.

        Args:
            rule: Of the run; without one every step has a gradient.
            share: Of the images that were sent, those that the critic takes for generated; asked
                for only when the step has a gradient.
        """
        if rule is None:
            return self
        return self.after_one(rule, share()) if self.is_due else self.after_none()

    def after_none(self) -> Pace:
        """Return where a run is after a step without a gradient."""
        return replace(self, waited=self.waited + 1)

    def after_one(self, rule: PaceRule, share: float) -> Pace:
        """Return where a run is after a gradient.

        Args:
            rule: Of the run.
            share: As for `after_step`, in [0, 1].

        References:
            [bie:23], whose released code has these steps between gradients.
        """
        if self.average < 0:
            average = share
        else:
            average = rule.decay * self.average + (1 - rule.decay) * share
        gradients = self.gradients + 1
        if gradients >= rule.grace and average <= rule.threshold:
            rung = min(self.rung + 1, len(_STEPS) - 1)
            return Pace(rung=rung, average=average)
        return Pace(rung=self.rung, gradients=gradients, average=average)

    def pack(self) -> Tensor:
        """Return the numbers as float64, which holds them exactly."""
        numbers = (self.rung, self.waited, self.gradients, self.average)
        return torch.tensor(numbers, dtype=torch.float64)

    @classmethod
    def unpack(cls, packed: Tensor) -> Pace:
        """Return what was packed."""
        rung, waited, gradients, average = packed.tolist()
        return cls(rung=int(rung), waited=int(waited), gradients=int(gradients), average=average)
