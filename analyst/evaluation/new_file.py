"""No command of an evaluation replaces a file by accident."""

from __future__ import annotations

from pathlib import Path

from analyst.evaluation.errors import ImageFileError


def check_new(path: Path, *, force: bool) -> None:
    """Check that a file may be written, before anything is computed for it.

    Args:
        path: What is to be written.
        force: Whether it may be replaced.

    Raises:
        ImageFileError: If it exists and may not.
    """
    if path.exists() and not force:
        message = f"{path} exists already"
        raise ImageFileError(message, "Choose another --out, or add --force.")
