"""Evaluation on public data: nothing is ever chosen by a test set."""

from analyst.evaluation.classifier import Report, evaluate
from analyst.evaluation.errors import EvaluationError
from analyst.evaluation.image_file import ImageFileError, load_images, save_images

__all__ = ["EvaluationError", "ImageFileError", "Report", "evaluate", "load_images", "save_images"]
