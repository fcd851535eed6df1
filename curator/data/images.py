"""Labelled images as the readers return them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.group_names import GroupNames
from curator.data.levels import Levels, level_type
from curator.privacy.batches import LARGEST_LEVEL

_IMAGE_DIMENSIONS = 4
_MOST_ROWS = 20  # that a refusal names


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelledImages:
    """Private images with labels; only the steward's commands and the store see one.

    `levels` is uint8 or uint16 of shape (N, channels, height, width); `labels` is int64 of shape
    (N).
    `groups` numbers the person or patient of each image, without gaps; `max_per_group` is the
    public bound on the images of one group, once it has been enforced. `alike_groups` names groups
    of arrays that differ in case only.
    """

    levels: Levels
    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64] | None = None
    max_per_group: int | None = None
    alike_groups: tuple[tuple[str, str], ...] = ()


def labelled_images(
    source: str, images: np.ndarray, labels: np.ndarray, groups: np.ndarray | None = None
) -> LabelledImages:
    """Check arrays and bring them into one form.

    Args:
        source: Name of the source, for messages.
        images: (N, H, W) or (N, C, H, W), integers in 0..65535.
        labels: (N), integers.
        groups: (N), integers or strings: images of the same value belong together.

    Raises:
        SourceError: If shapes, types or counts do not fit, or there are no images.
    """
    if images.ndim == _IMAGE_DIMENSIONS - 1:
        images = images[:, np.newaxis]
    if images.ndim != _IMAGE_DIMENSIONS or 0 in images.shape[1:]:
        msg = (
            f"{source}: images must have shape (N, height, width) or (N, channels, height, width), "
            f"not {images.shape}"
        )
        raise SourceError(msg)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        msg = f"{source}: labels must be one integer per image"
        raise SourceError(msg)
    if len(images) != len(labels):
        msg = f"{source}: {len(images)} images but {len(labels)} labels"
        raise SourceError(msg)
    if not len(images):
        msg = f"{source}: there are no images in it"
        raise SourceError(msg)
    is_whole = np.issubdtype(images.dtype, np.integer)
    if not is_whole or images.min() < 0 or (highest := int(images.max())) > LARGEST_LEVEL:
        msg = (
            f"{source}: pixel values must be integers from 0 to 255, or 65,535 with --max-level: "
            "scale and round them first"
        )
        raise SourceError(msg)
    levels: Levels = np.ascontiguousarray(images, dtype=level_type(highest))
    if groups is None:
        return LabelledImages(levels=levels, labels=labels.astype(np.int64))
    numbers, alike = _numbered(source, groups, len(images))
    return LabelledImages(
        levels=levels, labels=labels.astype(np.int64), groups=numbers, alike_groups=alike
    )


def _numbered(
    source: str, groups: np.ndarray, count: int
) -> tuple[npt.NDArray[np.int64], tuple[tuple[str, str], ...]]:
    """Number groups 0, 1, ... whatever they are called, and name those that differ in case only.

    Raises:
        SourceError: If there is not one integer or string for each image, one is empty, or two
            only look different.
    """
    if groups.ndim != 1 or groups.dtype.kind not in "iuUS":
        msg = f"{source}: groups must be one integer or string per image"
        raise SourceError(msg)
    if len(groups) != count:
        msg = f"{source}: {count} images but {len(groups)} groups"
        raise SourceError(msg)
    found, firsts, numbers = np.unique(groups, return_index=True, return_inverse=True)
    names = GroupNames()
    if groups.dtype.kind in "US":
        pairs = [(_text(found[k]), f"image {firsts[k]}") for k in np.argsort(firsts).tolist()]
        refused = [(row, why) for text, row in pairs if (why := names.problem(text, row))]
        if refused:
            shown = "; ".join(f"{row}: {why}" for row, why in refused[:_MOST_ROWS])
            more = len(refused) - _MOST_ROWS
            msg = f"{source}: {shown}" + (f"; and {more} more" if more > 0 else "")
            raise SourceError(msg)
    return numbers.astype(np.int64), tuple(names.alike())


def _text(value: str | bytes) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
