"""The commands that read a source: look at it, and add it as a data set."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from shlex import quote

from pydantic import ValidationError

from curator.cli_common import Screen, UsageProblem, folder_of
from curator.cli_progress import progress_for
from curator.cli_recipe import favourite_of_recipe
from curator.data.capacity import capacity_warning
from curator.data.conversion import Conversion, Shape
from curator.data.errors import SourceError
from curator.data.naming import is_text, shown
from curator.data.options import SourceOptions
from curator.plain_words import UNREAD_LETTERS, first_problem
from curator.privacy.adjacency import Unit
from curator.privacy.facts import DatasetFacts

_SHAPE_PARTS = 3
_INTERRUPTED = 130  # what shells expect after Ctrl-C


def _check_source(arguments: Namespace) -> None:
    """Print what a source holds.

    Raises:
        SourceError: If files would be refused.
    """
    from curator.data.report import PRIVATE, report_lines
    from curator.data.source import survey_source  # Pillow and scikit-learn

    options = source_options(arguments)
    with _interruptible("interrupted; nothing was written"):
        survey = survey_source(arguments.source, options, progress_for(arguments))
    screen = Screen.of(arguments)
    screen.tell(*report_lines(survey), PRIVATE)
    screen.answer(survey.as_json() | {"note": PRIVATE})
    if survey.refusals:
        msg = f"{len(survey.refusals)} refused; nothing is taken until each is corrected or allowed"
        if survey.channels is not None:  # arrays are refused as a whole, in the words of 'add'
            msg = survey.refusals[0][1]
        raise SourceError(msg)
    if not survey.images:
        msg = f"{arguments.source}: there are no images in it"
        raise SourceError(msg)


def _add_dataset(arguments: Namespace) -> None:
    from curator.add_dataset import Choices, add_dataset, try_dataset  # torch, seconds
    from curator.data.report import PRIVATE, report_lines

    folder = folder_of(arguments)
    facts = _facts(arguments)
    most = facts.max_size if facts.unit is Unit.RECORD else None  # a group has any number of images
    options = replace(source_options(arguments), max_images=most)
    favourite, favours = None, []
    if arguments.favour is not None:
        favourite, words = favourite_of_recipe(arguments.favour, facts)
        favours.append(words)
    with _interruptible(
        "interrupted; 'curator dataset list' says whether the data set was added, and unless it "
        "was, nothing is left of it"
    ):
        choices = Choices(favourite=favourite, most_shared=_share(arguments.max_shared))
        carry_out = try_dataset if arguments.dry_run else add_dataset
        added = carry_out(
            folder, facts, arguments.source, options, progress_for(arguments), choices
        )
    warning = capacity_warning(facts)
    if warning is not None:
        sys.stderr.write(f"curator: warning: {warning}\n")
    shared = {overlap.name: overlap.shared for overlap in added.overlaps}
    survey = added.survey.as_json() | {"shared": shared, "note": PRIVATE}
    screen = Screen.of(arguments)
    answer = {"public": facts.model_dump(mode="json"), "private": survey}
    screen.answer(answer | ({"added": False} if arguments.dry_run else {}))
    root = quote(str(folder.root))
    _, *report = report_lines(added.survey)  # the number of images is in the lines before
    screen.tell(
        *added.lines,
        *report,
        *_outcome(arguments, facts, root),
        *favours,
    )


def _outcome(arguments: Namespace, facts: DatasetFacts, root: str) -> tuple[str, ...]:
    """Return what was done, and what to do next."""
    budget = f"budget ({facts.epsilon:g}, {facts.delta:g}), {facts.adjacency}"
    private = "the lines above are private, the declared facts are public"
    if arguments.dry_run:
        return (
            f"{facts.name} would be added with {budget}; {private}",
            "nothing was written: run the same command without --dry-run to add it",
        )
    return (
        f"{facts.name} added with {budget}; {private}",
        *_source_left(arguments.source),
        f"next: curator analyst add NAME --dir {root}; curator serve --dir {root}",
    )


def _source_left(source: str) -> tuple[str, ...]:
    """Return what to do with the images that were read, where they are files of the steward."""
    if source.startswith("sklearn:"):
        return ()
    left = f"{shown(source)} is not needed any more and still holds the images"
    return (f"{left}: remove it, or keep it where only its owner can read it",)


def _share(part: float) -> float:
    """Check a part of a whole.

    Raises:
        UsageProblem: If it is none.
    """
    if not 0 <= part <= 1:
        msg = "--max-shared must be from 0 to 1"
        raise UsageProblem(msg)
    return part


def source_options(arguments: Namespace) -> SourceOptions:
    """Read how the source is to be read.

    Args:
        arguments: With all options of reading.

    Raises:
        UsageProblem: If two options do not fit each other.
    """
    keys = None
    if arguments.images_key or arguments.labels_key:
        keys = (arguments.images_key or "images", arguments.labels_key or "labels")
    shape = None if arguments.image_shape is None else _shape(arguments.image_shape)
    try:
        conversion = Conversion(
            shape=shape,
            colour=arguments.convert,
            resize=arguments.resize,
            alpha=arguments.alpha,
            exif=arguments.exif,
            sixteen_bit=arguments.sixteen_bit,
            frames=arguments.frames,
        )
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    return SourceOptions(
        keys=keys,
        groups_key=arguments.groups_key,
        labels=arguments.labels,
        classes=None if arguments.classes is None else _classes(arguments.classes),
        conversion=conversion,
        skip=arguments.other_files == "skip",
    )


def _shape(text: str) -> Shape:
    """Read CHANNELSxHEIGHTxWIDTH.

    Raises:
        UsageProblem: If it is something else.
    """
    try:
        parts = [int(part) for part in text.lower().split("x")]
    except ValueError:
        parts = []
    if len(parts) != _SHAPE_PARTS or min(parts) < 1:
        msg = "--image-shape must be CHANNELSxHEIGHTxWIDTH, such as 1x28x28"
        raise UsageProblem(msg)
    return parts[0], parts[1], parts[2]


def _classes(text: str) -> tuple[str, ...]:
    """Read names with commas between them.

    Raises:
        UsageProblem: If they are no text in this locale.
    """
    if not is_text(text):
        msg = f"--classes {UNREAD_LETTERS}"
        raise UsageProblem(msg)
    return tuple(part.strip() for part in text.split(","))


def _facts(arguments: Namespace) -> DatasetFacts:
    """Read the declared facts.

    Raises:
        UsageProblem: If one is missing or not valid.
    """
    channels, height, width = _shape(arguments.image_shape)
    relation, _, unit = arguments.adjacency.partition("-one-")
    if arguments.delta * arguments.nominal_size >= 1:
        msg = (
            f"delta: {arguments.delta:g} is not below 1 / --nominal-size, so it would allow that "
            "one of the images is given away whole: choose a far smaller one"
        )
        raise UsageProblem(msg)
    try:
        return DatasetFacts(
            name=arguments.name,
            channels=channels,
            height=height,
            width=width,
            max_level=arguments.max_level,
            classes=_classes(arguments.classes),
            nominal_size=arguments.nominal_size,
            max_size=arguments.max_size,
            sampling_rate=arguments.sampling_rate,
            capacity=arguments.capacity,
            relation=relation,
            unit=unit,
            max_records_per_group=arguments.max_records_per_group,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
        )
    except ValidationError as error:
        raise UsageProblem(first_problem(error, "data set")) from None


@contextmanager
def _interruptible(words: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM unwind, and say so without a traceback.

    Raises:
        SystemExit: After either.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\ncurator: {words}\n")
        raise SystemExit(_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


SOURCE_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "dataset check": _check_source,
    "dataset add": _add_dataset,
}
