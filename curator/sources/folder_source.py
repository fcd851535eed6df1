"""Read a folder of image files: one at a time, all of them, and refuse by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np

from curator.data.errors import SourceError
from curator.data.group_names import GroupNames, same_name
from curator.data.images import LabelledImages
from curator.data.levels import Levels
from curator.data.scratch import rows_on_disk
from curator.sources.conversion import ImageRefused
from curator.sources.convert import convert
from curator.sources.decode_image import OpenedImage, open_image
from curator.sources.label_table import list_labelled
from curator.sources.listing import Entry, Listing, list_class_folders
from curator.sources.options import Progress, SourceOptions
from curator.sources.preflight import refusal_text
from curator.sources.survey import Survey


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

    levels = rows_on_disk(scratch, rows(), shape, options.conversion.kind)
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
    """Decode each file; what is refused goes into the survey.

    Raises:
        SourceError: If groups are named in two ways.
    """
    survey.classes = listing.classes
    survey.refusals, survey.left_out = listing.refusals, listing.left_out
    survey.alike_groups = listing.alike_groups
    patients = _Patients() if options.groups_from == "PatientID" else None
    if patients is not None and any(entry.group is not None for entry in listing.entries):
        msg = (
            f"{survey.source}: groups are named twice, by --labels and --groups-from: leave one out"
        )
        raise SourceError(msg)
    for number, entry in enumerate(listing.entries, 1):
        try:
            opened = open_image(entry.path, with_person=patients is not None)
            survey.add_opened(entry, opened)
            converted = convert(opened, options.conversion)
            owner = entry if patients is None else patients.given(entry, opened)
        except ImageRefused as problem:
            survey.refusals.append((entry.name, str(problem)))
        else:
            survey.add_converted(owner, converted)
            yield owner, converted.levels
        progress(number, len(listing.entries))
    if patients is not None:
        survey.alike_groups.extend(patients.names.alike())


@final
class _Patients:
    """Who is on which image, by numbers: the identifiers are never repeated, and not kept."""

    def __init__(self) -> None:
        """Begin with none."""
        self.names = GroupNames(shows=False)
        self._numbers: dict[str, int] = {}

    def given(self, entry: Entry, opened: OpenedImage) -> Entry:
        """Return an image with the number of its patient as its group.

        Raises:
            ImageRefused: If its file names none, or one that only looks different.
        """
        if opened.person is None:
            msg = "no DICOM file, so it names no patient: remove it, or name groups in --labels"
            raise ImageRefused(msg)
        problem = self.names.problem(opened.person, entry.name)
        if problem is not None:
            msg = f"PatientID: {problem}"
            raise ImageRefused(msg)
        number = self._numbers.setdefault(opened.person, len(self._numbers))
        return replace(entry, group=str(number))
