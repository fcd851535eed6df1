"""Read a folder of image files: one at a time, all of them, and refuse by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.group_names import same_name
from curator.data.images import LabelledImages
from curator.data.scratch import rows_on_disk
from curator.sources.conversion import ImageRefused
from curator.sources.convert import convert
from curator.sources.decode_image import open_image
from curator.sources.label_table import list_labelled
from curator.sources.listing import Entry, Listing, list_class_folders
from curator.sources.options import Progress, SourceOptions
from curator.sources.preflight import refusal_text
from curator.sources.survey import Survey

Levels = npt.NDArray[np.uint8]


def survey_folder(root: Path, options: SourceOptions, progress: Progress) -> Survey:
    """Decode every file once and keep nothing.

    Args:
        root: The folder.
        options: How to read it.
        progress: Told how many files of how many are done.
    """
    survey = Survey(source=str(root))
    for _ in _decoded(_listing(root, options), options, survey, progress):
        pass
    return survey


def ingest_folder(
    root: Path, options: SourceOptions, scratch: Path, progress: Progress
) -> tuple[LabelledImages, Survey]:
    """Decode every file into a nameless file on disk.

    Args:
        root: The folder.
        options: How to read it, with the shape and the classes.
        scratch: A folder on the disk that has the room.
        progress: As for `survey_folder`.

    Raises:
        SourceError: If anything is refused, or there are no images.
    """
    classes, shape = options.classes, options.conversion.shape
    if classes is None or shape is None:
        msg = f"{root}: a folder of images needs --classes and --image-shape"
        raise SourceError(msg)
    survey, taken = Survey(source=str(root)), list[Entry]()

    def rows() -> Iterator[Levels]:
        for entry, levels in _decoded(_listing(root, options), options, survey, progress):
            taken.append(entry)
            if not survey.refusals:
                yield levels

    levels = rows_on_disk(scratch, rows(), shape)
    if survey.refusals:
        raise SourceError(refusal_text(survey))
    if not taken:
        msg = f"{root}: there are no images in it"
        raise SourceError(msg)
    numbers = {same_name(name): number for number, name in enumerate(classes)}
    labels = np.array([numbers[entry.label] for entry in taken], dtype=np.int64)
    names = [entry.group for entry in taken if entry.group is not None]
    groups = np.unique(names, return_inverse=True)[1].astype(np.int64) if names else None
    return LabelledImages(levels=levels, labels=labels, groups=groups), survey


def _listing(root: Path, options: SourceOptions) -> Listing:
    if options.labels is None:
        return list_class_folders(root, options.classes, skip=options.skip)
    return list_labelled(root, options, options.labels)


def _decoded(
    listing: Listing, options: SourceOptions, survey: Survey, progress: Progress
) -> Iterator[tuple[Entry, Levels]]:
    """Decode each file; what is refused goes into the survey."""
    survey.classes = listing.classes
    survey.refusals, survey.left_out = listing.refusals, listing.left_out
    survey.alike_groups = listing.alike_groups
    for number, entry in enumerate(listing.entries, 1):
        try:
            opened = open_image(entry.path)
            survey.add_opened(entry, opened)
            converted = convert(opened, options.conversion)
        except ImageRefused as problem:
            survey.refusals.append((entry.name, str(problem)))
        else:
            survey.add_converted(entry, converted)
            yield entry, converted.levels
        progress(number, len(listing.entries))
