"""Keep what was trained when a sitting fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from analyst.training.metrics import Value


class Rescued(Protocol):
    """What a sitting writes."""

    def save_checkpoint(self) -> object:
        """Write a checkpoint of the state as it is now."""
        ...

    def event(self, kind: str, values: dict[str, Value]) -> None:
        """Write a line that is no step."""
        ...


def rescue(outputs: Rescued, error: Exception, say: Callable[[str], None]) -> None:
    """Save a checkpoint after a failure, whatever it was: no memory, a full disk, the curator.

    The failure is the caller's to raise again; if there is no saving either, the checkpoint before
    is still whole.

    Args:
        outputs: Of the sitting.
        error: What went wrong.
        say: Told if nothing could be saved.
    """
    try:
        outputs.save_checkpoint()
        outputs.event("failed", {"error": type(error).__name__})
    except Exception as second:  # noqa: BLE001 - it must not hide the first
        say(f"no checkpoint could be saved ({type(second).__name__}); the last one is whole")
