"""The preflight's report in lines, for the steward's terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from curator.sources.preflight import has_channels_last
from curator.sources.survey import Survey

MOST_NAMES = 20
_MOST_SIZES = 8
_OPTION = re.compile(r"add (--[a-z-]+) ([a-z]+)")  # as a refusal names what would take the file
_SKIP = "--other-files"  # leaves files out, and takes none
_CHANNELS = {"L": 1, "RGB": 3}
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
    if taken or left_out:
        words = " ".join(f"{name} {value}" for name, value in options.items())
        counts = [f"{taken} of the {len(survey.refusals)} refused would be taken"] if taken else []
        counts += [f"{_number(left_out, 'file')} left out"] if left_out else []
        yield f"with {words} {' and '.join(counts)}"


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
