"""Training: generate, ask the curator for a gradient, take an optimizer step, remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.training.checkpoint import CheckpointError, CheckpointStore
    from analyst.training.loop import Outcome, train
    from analyst.training.session import SessionOptions, SessionResult, run_session
    from analyst.training.state import TrainingState
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.training.checkpoint": (
                "CheckpointError",
                "CheckpointStore",
            ),
            "analyst.training.loop": (
                "Outcome",
                "train",
            ),
            "analyst.training.session": (
                "SessionOptions",
                "SessionResult",
                "run_session",
            ),
            "analyst.training.state": ("TrainingState",),
        },
    )

__all__ = [
    "CheckpointError",
    "CheckpointStore",
    "Outcome",
    "SessionOptions",
    "SessionResult",
    "TrainingState",
    "run_session",
    "train",
]
