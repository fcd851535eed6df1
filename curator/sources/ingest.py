"""Read any source once: survey it for the steward, and keep its levels where asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.sources.array_readers import holds_idx, read_source
from curator.sources.bounds import Bounds
from curator.sources.conversion import Conversion
from curator.sources.convert import resized_levels
from curator.sources.folder_source import ingest_folder, survey_folder
from curator.sources.options import Progress, SourceOptions
from curator.sources.preflight import labels_problem, shape_problem
from curator.sources.survey import Survey


def survey_source(source: str, options: SourceOptions, progress: Progress) -> Survey:
    """Decode everything once and keep nothing.

    Args:
        source: As for `curator.sources.array_readers`, or a folder of image files.
        options: How to read it.
        progress: Told how many files of how many are done.

    Raises:
        SourceError: If it cannot be read at all.
    """
    if not is_image_folder(source, options):
        return _survey_arrays(source, *_arrays(source, options), options)
    return survey_folder(Path(source), options, progress)


def ingest_source(
    source: str, options: SourceOptions, scratch: Path, progress: Progress
) -> tuple[LabelledImages, Survey]:
    """Read a source, image files into a nameless file on disk.

    Args:
        source: As for `survey_source`.
        options: How to read it; an image folder needs the shape and the classes.
        scratch: A folder on the disk that has the room.
        progress: As for `survey_source`.

    Raises:
        SourceError: If anything is refused; the text names the first files.
    """
    if not is_image_folder(source, options):
        images, sizes = _arrays(source, options)
        return images, _survey_arrays(source, images, sizes, options)
    return ingest_folder(Path(source), options, scratch, progress)


def is_image_folder(source: str, options: SourceOptions) -> bool:
    """Return whether a source is a folder of image files.

    Args:
        source: As typed in.
        options: With the label table, if there is one.

    Raises:
        SourceError: If an option is given that another kind of source takes.
    """
    path = Path(source)
    is_folder = path.is_dir() and not (options.labels is None and holds_idx(path))
    if is_folder and (options.keys or options.groups_key):
        msg = (
            f"{source}: --images-key, --labels-key and --groups-key are for an .npz file; a "
            "folder takes labels and groups from --labels FILE (columns path,label,group)"
        )
        raise SourceError(msg)
    given = options.conversion
    allowed = Conversion(shape=given.shape, resize=given.resize, max_level=given.max_level)
    of_files = options.labels or options.skip or options.groups_from != "none"
    if not is_folder and (of_files or given != allowed):
        msg = (
            f"{source}: not a folder of images: --labels, --other-files, --groups-from and the "
            "conversions but --resize are for one"
        )
        raise SourceError(msg)
    if options.labels is None and (options.attribute or options.rows):
        msg = f"{source}: --attribute and --rows are for a table that --labels names"
        raise SourceError(msg)
    return is_folder


def _arrays(source: str, options: SourceOptions) -> tuple[LabelledImages, tuple[int, int]]:
    """Return arrays in the declared size, if they may be resized, and width and height before."""
    images = read_source(
        source, keys=options.keys, groups_key=options.groups_key, bounds=Bounds.of(options)
    )
    shape, levels = options.conversion.shape, images.levels
    _, _, height, width = levels.shape
    is_asked = options.conversion.resize != "none" and shape is not None
    if is_asked and shape is not None and shape[0] == levels.shape[1] and shape != levels.shape[1:]:
        scaled = np.empty((len(levels), *shape), levels.dtype)
        for number, one in enumerate(levels):
            scaled[number] = resized_levels(one, options.conversion)
        images = replace(images, levels=scaled)
    return images, (width, height)


def _survey_arrays(
    source: str, images: LabelledImages, size: tuple[int, int], options: SourceOptions
) -> Survey:
    """Count arrays; their labels are numbers, which the declared names follow if there are any."""
    declared = dict(enumerate(options.classes or ()))
    labels = [declared.get(label, str(label)) for label in images.labels.tolist()]
    found = [declared.get(label, str(label)) for label in np.unique(images.labels).tolist()]
    survey = Survey(source=source, classes=tuple(dict.fromkeys((*declared.values(), *found))))
    shape, want = images.levels.shape[1:], options.conversion.shape
    survey.channels, survey.sizes[size] = shape[0], len(labels)
    if size != (shape[2], shape[1]):
        survey.conversions[f"resized by --resize {options.conversion.resize}"] = len(labels)
    survey.modes[f"{shape[0]} channels"] = len(labels)
    problem = shape_problem(shape, want)
    if problem is not None:
        survey.refusals.append(("all images", problem))
    problem = labels_problem(images.labels, len(options.classes) if options.classes else None)
    if problem is not None:
        survey.refusals.append(("all images", problem))
    survey.alike_groups = list(images.alike_groups)
    groups = None if images.groups is None else images.groups.tolist()
    for number, (levels, label) in enumerate(zip(images.levels, labels, strict=True)):
        group = None if groups is None else str(groups[number])
        survey.add(f"image {number}", label, levels, group)
    return survey
