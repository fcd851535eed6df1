"""The one error of a checkpoint, apart from torch, which reading one needs."""

from __future__ import annotations

from typing import final

from analyst.errors import AnalystError


@final
class CheckpointError(AnalystError):
    """A checkpoint is missing, damaged or made for something else."""
