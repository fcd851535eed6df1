"""Let answers leave on a public schedule, so that the time of one tells nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseSlot:
    """Answers leave a whole number of slots after their step was claimed.

    With 0 seconds they leave when they are ready: shapes and iteration counts are public already,
    and a slot also hides what the machine's arithmetic tells. Choose it a little longer than a step
    takes, since a step that needs longer waits for the next slot.
    """

    seconds: float

    def deliver(
        self, action: Callable[[], None], claimed: float, monotonic: Callable[[], float]
    ) -> None:
        """Run an action now, or when the slot ends.

        Args:
            action: Hands the answer over.
            claimed: When the step was claimed, in monotonic seconds.
            monotonic: The clock.
        """
        if self.seconds <= 0:
            action()
            return
        passed = monotonic() - claimed
        slots = max(1, math.ceil(passed / self.seconds))
        timer = threading.Timer(max(0.0, slots * self.seconds - passed), action)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no more threads: late is better than never
            action()


WHEN_READY = ResponseSlot(seconds=0.0)
