"""Training: generate, ask the curator for a gradient, take an optimizer step, remember."""

from analyst.training.checkpoint import CheckpointError, CheckpointStore
from analyst.training.loop import Outcome, train
from analyst.training.session import SessionOptions, SessionResult, run_session
from analyst.training.state import TrainingState

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
