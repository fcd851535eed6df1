"""What an evaluation cannot do, and what to do about it."""

from __future__ import annotations

from typing import final

from analyst.errors import AnalystError

EXTRA = "Install the extra: pip install 'weir-dp[evaluation]'."


@final
class EvaluationError(AnalystError):
    """An evaluation lacks a package, a file, or images that make sense together."""


@final
class ImageFileError(AnalystError):
    """A file of images cannot be read or has the wrong content."""
