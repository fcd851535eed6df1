"""Compare a source with what the steward declared; the report is for the steward alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.privacy.adjacency import Unit
from curator.privacy.facts import DatasetFacts
from curator.sources.conversion import Shape
from curator.sources.survey import Survey

CHANNELS_FIRST = (
    "arrays must be laid out (N, channels, height, width), NCHW; these seem to have their channels "
    "last: save images.transpose(0, 3, 1, 2)"
)
_COLOURS = range(1, 5)  # grey, RGB, and either with transparency
_NAMES = {Unit.RECORD: "images", Unit.GROUP: "groups"}


def check_source(images: LabelledImages, facts: DatasetFacts, *, more: int = 0) -> tuple[str, ...]:
    """Check that every image fits the declared facts.

    Args:
        images: Of the source.
        facts: What is declared.
        more: Units that may be added; there is room for all of them or for none, so that whether a
            source is taken does not hang on a coin.

    Returns:
        Lines for the steward: true size beside the declared one. They are private.

    Raises:
        SourceError: If an image or label does not fit the declaration.
    """
    problem = shape_problem(images.levels.shape[1:], (facts.channels, facts.height, facts.width))
    if problem is not None:
        raise SourceError(problem)
    problem = level_problem(images, facts.max_level)
    if problem is not None:
        raise SourceError(problem)
    problem = labels_problem(images.labels, len(facts.classes))
    if problem is not None:
        raise SourceError(problem)
    size, lines = _size(images, facts)
    if size + more > facts.max_size:
        planted = f" and {more} canaries at the most" if more else ""
        msg = (
            f"there are {size} {_NAMES[facts.unit]}{planted}, declared are at most {facts.max_size}"
        )
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


def level_problem(images: LabelledImages, max_level: int) -> str | None:
    """Return why levels are above the declared one of white, None if they are not."""
    highest = images.levels.max()
    if highest <= max_level:
        return None
    return f"a pixel has level {highest}, declared is at most {max_level}: correct --max-level"


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
            f"the declared unit is a {facts.unit} and {there}; they are named by --groups-key, by "
            "--groups-from, or by the column 'group' of the --labels table: give both --adjacency "
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


MOST_NAMES = 20
_MOST_SIZES = 8
_OPTION = re.compile(r"add (--[a-z-]+) ([a-z]+)")  # as a refusal names what would take the file
_COLOUR = "--convert"  # changes all images of the source, also those that are taken without it
_EITHER_COLOUR = "or --convert rgb"  # where the declared shape does not say which
_SKIP = "--other-files"  # leaves files out, and takes none
_CHANNELS = {"L": 1, "I;16": 1, "RGB": 3}
PRIVATE = (
    "All of this is private: it is shown to you and to no analyst. The public facts of "
    "'curator dataset add' are what has been published about the data; never copy them from here."
)


def report_lines(survey: Survey, *, most_names: int = MOST_NAMES) -> Iterator[str]:
    """Return the report.

    Returns:
        Lines; every list that is cut says how many it leaves out.
    """
    yield f"{survey.source}: {_number(survey.num_taken, 'image')} can be taken"
    if survey.formats:
        yield f"formats: {_counts(survey.formats)}"
        yield f"modes: {_counts(survey.modes)}; bits a channel: {_counts(survey.depths)}"
        yield f"sizes, width x height: {_sizes(survey)}"
    yield from _shape_line(survey)
    if survey.images:
        yield f"levels: {survey.lowest} to {survey.highest}"
    yield from _class_lines(survey)
    yield from _group_lines(survey, most_names)
    for name, count in survey.features.items():
        if count:
            yield f"{name}: {count}"
    for done, count in survey.conversions.items():
        yield f"converted, {done}: {count}"
    yield from _duplicate_lines(survey, most_names)
    yield from _named("left out", survey.left_out, most_names)
    yield from _named("REFUSED", survey.refusals, most_names)
    yield from _remedy_line(survey)


def refusal_text(survey: Survey) -> str:
    """Return why a source is not taken, with the first files by name."""
    return "\n".join(_named("not taken", survey.refusals, MOST_NAMES))


def _shape_line(survey: Survey) -> Iterator[str]:
    """Name the option of the shape, where all images have one as they will be stored."""
    if survey.conversions:
        if len(survey.shapes) == 1:
            (shape,) = survey.shapes
            yield f"all have one shape once converted: --image-shape {'x'.join(map(str, shape))}"
        return
    if len(survey.sizes) == len(survey.modes) == 1:
        ((width, height),), (mode,) = survey.sizes, survey.modes
        channels = survey.channels or _CHANNELS.get(mode)
        if survey.channels is not None and has_channels_last((survey.channels, height, width)):
            return  # they are refused
        if channels is not None:
            yield f"all have one shape: --image-shape {channels}x{height}x{width}"
        return
    needed = ["--image-shape CxHxW with --resize fit or crop"] * (len(survey.sizes) > 1)
    needed += ["--convert grey or rgb"] * (len(survey.modes) > 1)
    if needed:
        yield f"they have several shapes, and 'dataset add' takes one: add {' and '.join(needed)}"


def _remedy_line(survey: Survey) -> Iterator[str]:
    """Name the options that would take all that an option can take."""
    options: dict[str, str] = {}
    taken = left_out = 0
    for _, why in survey.refusals:
        parts = [_OPTION.search(part) for part in why.split("; ")]
        is_skipped = any(found and found[1] == _SKIP for found in parts)
        left_out += is_skipped
        taken += all(parts) and not is_skipped
        options |= {found[1]: found[2] for found in parts if found and found[1] not in options}
    if _is_coloured(survey) and any(_EITHER_COLOUR in why for _, why in survey.refusals):
        options[_COLOUR] = "rgb"  # grey would take the colours off those that are taken already
    if taken or left_out:
        words = " ".join(f"{name} {value}" for name, value in options.items())
        counts = [f"{taken} of the {len(survey.refusals)} refused would be taken"] if taken else []
        counts += [f"{_number(left_out, 'file')} left out"] if left_out else []
        yield f"with {words} {' and '.join(counts)}"


def _is_coloured(survey: Survey) -> bool:
    return any(_CHANNELS.get(mode) == _CHANNELS["RGB"] for mode in survey.modes)


def _class_lines(survey: Survey) -> Iterator[str]:
    order = ", ".join(f"{name} {survey.per_class[name]}" for name in survey.classes)
    yield f"classes in order, with their images: {order or 'none'}"
    counts = [survey.per_class[name] for name in survey.classes if survey.per_class[name]]
    if counts and max(counts) > 2 * min(counts):
        yield f"balance: the largest class is {max(counts) / min(counts):.1f} times the smallest"


def _group_lines(survey: Survey, most_names: int) -> Iterator[str]:
    sizes = survey.group_sizes.values()
    if sizes:
        several = sum(len(names) > 1 for names in survey.group_classes.values())
        yield (
            f"groups: {len(sizes)}; {sum(size > 1 for size in sizes)} have several images, "
            f"the largest {max(sizes)}; {several} have several classes"
        )
    title = (
        "groups that differ in case only, taken as two: if they are one person, write them alike"
    )
    yield from _named(title, survey.alike_groups, most_names)


def _duplicate_lines(survey: Survey, most_names: int) -> Iterator[str]:
    if survey.duplicates:
        pairs = [(name, f"the same pixels as {first}") for name, first in survey.duplicates]
        yield (
            f"duplicates are kept ({survey.num_mixed_duplicates} have another class than their "
            "first): if they show one person, remove them or declare groups"
        )
        yield from _named("duplicates", pairs, most_names)


def _named(title: str, pairs: Sequence[tuple[str, str]], most: int) -> Iterator[str]:
    if pairs:
        yield f"{title}: {len(pairs)}"
        yield from (f"  {name}: {why}" for name, why in pairs[:most])
        if len(pairs) > most:
            yield f"  and {len(pairs) - most} more, all in 'curator dataset check SOURCE --json'"


def _sizes(survey: Survey) -> str:
    common = survey.sizes.most_common(_MOST_SIZES)
    text = ", ".join(f"{width} x {height} ({count})" for (width, height), count in common)
    more = len(survey.sizes) - len(common)
    return text + (f" and {more} other sizes" if more > 0 else "")


def _counts(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
