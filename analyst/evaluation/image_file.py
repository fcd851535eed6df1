"""Labelled images in one NPZ file: `images` uint8 [N, H, W] or [N, C, H, W], `labels` [N].

`classes` has their names, if they are known, and `run_id` the run whose generator made them. A file
with both parts of a data set has `x_train`, `y_train`, `x_test`, `y_test` instead.
Nothing is unpickled: a file with object arrays is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from analyst.documents import DocumentProblem
from analyst.errors import EvaluationError
from analyst.errors import ImageFileError as ImageFileError
from analyst.evaluation.npz import DAMAGED, NpzFile
from analyst.new_file import new_file
from analyst.os_errors import explain_os_error


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Images [N, C, H, W] as bytes, labels [N], names of classes, a run; empty if not known."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...] = ()
    run_id: str = ""

    def name_of(self, label: int) -> str:
        """Return the name of a class; its number if it has none."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)


def save_images(path: Path, data: LabelledImages, *, force: bool = False) -> None:
    """Write an NPZ file; one channel is written without its axis."""
    images = data.images[:, 0] if data.images.shape[1] == 1 else data.images
    with new_file(path, replace=force) as partial, partial.open("wb") as file:
        named: dict[str, Any] = {"classes": np.array(data.classes)} if data.classes else {}
        named |= {"run_id": np.array(data.run_id)} if data.run_id else {}
        np.savez_compressed(file, images=images, labels=data.labels, **named)


def load_images(path: Path, *, part: Literal["train", "test"] = "train") -> LabelledImages:
    """Read an NPZ file.

    Returns:
        Its images with a channel axis, and its labels.

    Raises:
        ImageFileError: If it cannot be read, or an array is missing or has another shape or type.
    """
    try:
        with NpzFile(path) as archive:
            keys = ("images", "labels")
            if "images" not in archive and f"x_{part}" in archive:
                keys = (f"x_{part}", f"y_{part}")
            _check_declared(path, archive, *keys)
            images, labels = archive.array(keys[0]), archive.array(keys[1])
            classes, run_id = _texts(archive, "classes"), _texts(archive, "run_id")
    except (OSError, MemoryError) as error:
        words, remedy = explain_os_error(error, str(path))
        message = f"cannot read images from {words}"
        raise ImageFileError(message, remedy) from None
    except DocumentProblem as problem:
        message = f"cannot read images from {path}: {problem}"
        raise ImageFileError(message, _REMEDY) from None
    except DAMAGED:
        message = f"cannot read images from {path}: it is cut, damaged or no NPZ file"
        raise ImageFileError(message, _REMEDY) from None
    if images.ndim == 3:
        images = images[:, None]
    return LabelledImages(
        images,
        labels.astype(np.int64),
        classes=tuple(classes.tolist()) if classes.ndim == 1 else (),
        run_id=str(run_id) if run_id.ndim == 0 and _RUN_ID.fullmatch(str(run_id)) else "",
    )


def _check_declared(path: Path, archive: NpzFile, images: str, labels: str) -> None:
    """Check what the headers say, before anything is unpacked.

    Raises:
        DocumentProblem: If an array is missing.
        ImageFileError: If a shape or a type is another.
    """
    (shape, kind), (labelled, of_labels) = archive.declared(images), archive.declared(labels)
    if len(shape) not in {3, 4} or kind != np.uint8:
        message = f"{path}: images are {kind} {shape}"
        raise ImageFileError(message, _REMEDY)
    if labelled != shape[:1] or of_labels.kind not in "iu":
        message = f"{path}: labels are {of_labels} {labelled}"
        raise ImageFileError(message, _REMEDY)


def _texts(archive: NpzFile, name: str) -> npt.NDArray[np.str_]:
    """Return an array of short texts; an empty one, of two dimensions, if there is none.

    Raises:
        DocumentProblem: If it is cut or damaged.
    """
    if name in archive:
        shape, kind = archive.declared(name)
        longest = _LONGEST_NAME * np.dtype("U1").itemsize
        if kind.kind == "U" and kind.itemsize <= longest and math.prod(shape) <= _MOST_NAMES:
            return archive.array(name)
    return np.empty((0, 0), np.str_)


def check_apart(synthetic: LabelledImages, test: LabelledImages) -> None:
    """Check that a set is not tested on itself, which would say nothing of it.

    Raises:
        EvaluationError: If both hold the very same images.
    """
    if np.array_equal(synthetic.images, test.images):
        message = "the synthetic images and those of --test are the same"
        raise EvaluationError(message, "Give --test real images that are public.")


_RUN_ID: Final = re.compile("[0-9A-Za-z._-]{1,64}")  # it is printed on terminals
_MOST_NAMES: Final = 10_000  # classes that a data set may have
_LONGEST_NAME: Final = 64  # characters of one
_REMEDY = "Give an NPZ file with images uint8 [N,H,W] or [N,C,H,W] and integer labels [N]."
