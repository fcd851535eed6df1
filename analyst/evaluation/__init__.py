"""Evaluation on public data: nothing is ever chosen by a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.evaluation.classifier import Report, evaluate
    from analyst.evaluation.errors import EvaluationError
    from analyst.evaluation.image_file import ImageFileError, load_images, save_images
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.evaluation.classifier": (
                "Report",
                "evaluate",
            ),
            "analyst.evaluation.errors": ("EvaluationError",),
            "analyst.evaluation.image_file": (
                "ImageFileError",
                "load_images",
                "save_images",
            ),
        },
    )

__all__ = ["EvaluationError", "ImageFileError", "Report", "evaluate", "load_images", "save_images"]
