"""Steps that were sent and not waited for: the ledger may count them."""

from __future__ import annotations

import warnings
from typing import final

from analyst.errors import StepsInterrupted


@final
class InterruptedSteps:
    """Those of one run since its last answer."""

    def __init__(self) -> None:
        """Begin with none."""
        self._steps = range(0)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return len(self._steps) > 0

    def add(self, first: int, count: int) -> None:
        """Remember steps whose answers will not be read."""
        self._steps = range(self._steps.start if self else first, first + count)

    def settle(self, run_id: str, next_step: int) -> None:
        """Name those that the ledger counts, once, and forget them all."""
        counted = [str(step) for step in self._steps if step < next_step]
        self._steps = range(0)
        if counted:
            warnings.warn(
                f"run {run_id}: step {', '.join(counted)} was interrupted after it was sent; it is "
                f"charged and its answer was not read. The run goes on with step {next_step}.",
                StepsInterrupted,
                stacklevel=5,
            )
