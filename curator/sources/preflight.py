"""Compare a source with what the steward declared; the report is for the steward alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.privacy.adjacency import Unit
from curator.privacy.facts import DatasetFacts
from curator.sources.conversion import Shape

CHANNELS_FIRST = (
    "arrays must be laid out (N, channels, height, width), NCHW; these seem to have their channels "
    "last: save images.transpose(0, 3, 1, 2)"
)
_COLOURS = range(1, 5)  # grey, RGB, and either with transparency
_NAMES = {Unit.RECORD: "images", Unit.GROUP: "groups"}


def check_source(images: LabelledImages, facts: DatasetFacts) -> tuple[str, ...]:
    """Check that every image fits the declared facts.

    Returns:
        Lines for the steward: true size beside the declared one. They are private.

    Raises:
        SourceError: If an image or label does not fit the declaration.
    """
    problem = shape_problem(images.levels.shape[1:], (facts.channels, facts.height, facts.width))
    if problem is not None:
        raise SourceError(problem)
    if images.levels.max() > facts.max_level:
        msg = f"a pixel has level {images.levels.max()}, declared is at most {facts.max_level}"
        raise SourceError(msg)
    problem = labels_problem(images.labels, len(facts.classes))
    if problem is not None:
        raise SourceError(problem)
    size, lines = _size(images, facts)
    if size > facts.max_size:
        msg = f"there are {size} {_NAMES[facts.unit]}, declared are at most {facts.max_size}"
        raise SourceError(msg)
    return lines


def shape_problem(shape: tuple[int, ...], declared: Shape | None) -> str | None:
    """Return why arrays are not of the declared shape, None if they are.

    Args:
        shape: Of one image, (channels, height, width).
        declared: Likewise; None if nothing is, then channels that come last are a problem.
    """
    if declared is None:
        return f"shape {shape}: {CHANNELS_FIRST}" if has_channels_last(shape) else None
    if shape == declared:
        return None
    words = f"the images have shape {shape}, declared is {declared}"
    channels, height, width = declared
    if shape == (height, width, channels):
        return f"{words}: {CHANNELS_FIRST}"
    return f"{words}: declare the shape that the images have"


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Return whether one image of an array seems to be laid out (height, width, channels)."""
    return shape[-1] in _COLOURS and shape[0] not in _COLOURS


def labels_problem(labels: npt.NDArray[np.int64], num_classes: int | None) -> str | None:
    """Return why labels are not those of the declared classes, None if they are.

    Args:
        labels: At least one.
        num_classes: As declared; None if nothing is, then the labels must begin at 0.
    """
    lowest, highest = labels.min(), labels.max()
    if num_classes is None:
        if lowest == 0:
            return None
        return (
            f"labels run from {lowest} to {highest} and must count from 0; if the classes before "
            "have no images, name all of them with --classes"
        )
    if lowest >= 0 and highest < num_classes:
        return None
    return (
        f"labels run from {lowest} to {highest}, "
        f"declared are {num_classes} classes (0 to {num_classes - 1})"
    )


def _size(images: LabelledImages, facts: DatasetFacts) -> tuple[int, tuple[str, ...]]:
    """Return the number of units and lines about it.

    Raises:
        SourceError: If there are groups where none are declared, or none where they are.
    """
    if (images.groups is None) != (facts.max_records_per_group is None):
        there = "there are groups" if images.groups is not None else "there are no groups"
        msg = (
            f"the declared unit is a {facts.unit} and {there}; they are named by --groups-key, or "
            "by the column 'group' of the --labels table: give both --adjacency "
            "add-or-remove-one-group and groups, or neither"
        )
        raise SourceError(msg)
    declared = f"(declared nominal size {facts.nominal_size})"
    if images.groups is None or facts.max_records_per_group is None:
        return len(images.labels), (f"{len(images.labels)} images {declared}",)
    sizes = np.bincount(images.groups)
    left_out = int((sizes - facts.max_records_per_group).clip(min=0).sum())
    return len(sizes), (
        f"{len(images.labels)} images in {len(sizes)} groups {declared}",
        f"largest group: {sizes.max()} images, the first {facts.max_records_per_group} are kept",
        f"left out: {left_out} images",
    )
