"""The cap of a data set: an (epsilon, delta) pair, checked once, never changed silently."""

from __future__ import annotations

from dataclasses import dataclass

MIN_DELTA = 2e-12
MAX_DELTA = 1e-2
MAX_EPSILON = 20.0
REHEARSAL_EPSILON = 1e6
"""No limit at all, for public data alone: `DatasetFacts` lets no other data set have it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """An (epsilon, delta) cap over all analysts and runs of one data set."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Check both numbers.

        Raises:
            ValueError: If epsilon is neither in (0, 20] nor a rehearsal's, or delta is not in
                (2e-12, 1e-2].
        """
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                msg = f"{name} must be a number"
                raise ValueError(msg)  # noqa: TRY004
        if not (0 < self.epsilon <= MAX_EPSILON or self.epsilon == REHEARSAL_EPSILON):
            msg = f"epsilon must be above 0 and at most {MAX_EPSILON:g}: above, it promises nothing"
            raise ValueError(msg)
        if not MIN_DELTA < self.delta <= MAX_DELTA:
            msg = f"delta must be above {MIN_DELTA:g} and at most {MAX_DELTA:g}"
            raise ValueError(msg)


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetNumbers:
    """The numbers of a refusal, all in epsilon at the data set's delta; public ledger facts."""

    budget: float
    spent: float  # by steps that may have been answered
    reserved: float  # spent and all open runs together
    asked: float  # what the refused request would bring the total to
    remaining: float
    delta: float
