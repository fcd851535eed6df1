"""The commands that read a source: look at it, and add it as a data set."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer

from curator.cli.command import Dir, Task, UsageProblem, command, opened
from curator.cli.declared import Declared
from curator.cli.exit_code import ExitCode
from curator.cli.options import Group, argument, flag, option
from curator.cli.progress import progress_for
from curator.cli.reading import Reading, Source, rate

if TYPE_CHECKING:
    from curator.privacy.facts import DatasetFacts

app = typer.Typer(name="dataset", cls=Group, help="Add data sets and decide about them.")


@command(app, "dataset check photos --image-shape 3x32x32 --convert rgb --resize crop", reads=True)
def check(
    task: Task,
    *,
    source: Source,
    classes: str | None = option("Names in order; by default the source's, 2 before 10.", "A,B"),
    image_shape: str | None = option("Compare with it, such as 1x28x28.", "CxHxW"),
    max_level: int | None = option("Level of a white pixel, to compare with.", "N"),
    reading: Reading,
) -> None:
    """Look at a source before adding it.

    Decode everything once and report what is there: for you alone, and nothing is written.

    Files that would need a conversion that is not typed in are refused by name, with the option
    that would take them. Exit code 0: 'dataset add' would take all of it; 1: something is refused.

    Raises:
        SourceError: If files would be refused.
    """
    from curator.data.errors import SourceError
    from curator.sources.ingest import survey_source  # Pillow and scikit-learn
    from curator.sources.preflight import PRIVATE, report_lines

    options = reading.options(classes, image_shape, max_level)
    with _interruptible("interrupted; nothing was written"):
        survey = survey_source(source, options, progress_for(task.screen))
    task.screen.tell(*report_lines(survey), PRIVATE)
    task.screen.answer(survey.as_json() | {"note": PRIVATE})
    if survey.refusals:
        msg = f"{len(survey.refusals)} refused; nothing is taken until each is corrected or allowed"
        if survey.channels is not None:  # arrays are refused as a whole, in the words of 'add'
            msg = survey.refusals[0][1]
        raise SourceError(msg)
    if not survey.images:
        msg = f"{source}: there are no images in it"
        raise SourceError(msg)


@command(
    app,
    "dataset convert photos --labels labels.csv --classes cat,dog --image-shape 3x32x32 \\\n"
    "      --convert rgb --resize crop --out test.npz",
)
def convert(  # noqa: PLR0913 - one parameter a group of options
    task: Task,
    *,
    source: Source,
    classes: str = option("Names in order.", "A,B", needed=True),
    image_shape: str = option("Such as 3x32x32.", "CxHxW", needed=True),
    max_level: int = option("Level of a white pixel, which becomes 255.", "N", default=255),
    out: Path = option("Where to write.", "FILE.npz", needed=True),
    force: bool = flag("--force", "Replace a file that exists."),
    reading: Reading,
) -> None:
    """Write PUBLIC images as 'dataset add' would store private ones.

    For a public test set that analysts evaluate with: the file is plain, has 8 bits, and no budget
    protects what is in it. Nothing is registered.

    Raises:
        SourceError: If a level is above that of white.
        UsageProblem: If the file is not to be an NPZ file.
    """
    import numpy as np

    from curator.data.errors import SourceError
    from curator.sources.convert import eight_bits
    from curator.sources.ingest import ingest_source  # Pillow and scikit-learn
    from curator.sources.preflight import level_problem
    from curator.system.new_file import check_output, new_file

    if out.suffix != ".npz":
        msg = f"--out must end in .npz, not {out.name}"
        raise UsageProblem(msg)
    check_output(out, force=force)
    options = reading.options(classes, image_shape, max_level)
    with _interruptible("interrupted; nothing was written"):
        images, _ = ingest_source(source, options, out.parent, progress_for(task.screen))
        names = np.array(options.classes)
        problem = level_problem(images, max_level)
        if problem is not None:
            raise SourceError(problem)
        levels = eight_bits(images.levels, max_level)
        with new_file(out, replace=force, mode=0o666) as partial, partial.open("wb") as file:
            np.savez_compressed(file, images=levels, labels=images.labels, classes=names)
    count = len(images.labels)
    task.screen.tell(f"wrote {count:,} images to {out}, which anyone who has it can see")
    task.screen.answer({"out": str(out), "images": count})


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """How the budget is weighed, what is refused, and what is planted."""

    favour: str | None = option(
        "Weigh the orders of the accounting, for ever, as suits this recipe best; by "
        "default as suits Gaussian releases (sampled steps with little noise gain much).",
        "RECIPE.toml",
    )
    max_shared: float = option(
        "Refuse it if more than this part of its images, or of those of a smaller data "
        "set, has a budget already; the very same images are refused in any case.",
        "PART",
        parser=rate,
        default=0.5,
    )
    canaries: int | None = option(
        "Draw K pictures of random blocks and let a coin decide about each whether it is put in; "
        "'curator evidence' shows later whether synthetic images tell which. About one in a "
        "hundred of the images does no harm.",
        "K",
    )
    dry_run: bool = flag("--dry-run", "Check all that is checked, and write nothing.")

    def __post_init__(self) -> None:
        """Check the number of canaries before a source is read."""
        if self.canaries is not None:
            from curator.data.canaries import check_count

            check_count(self.canaries)


@command(
    app,
    "dataset add cats photos --dir /srv/weir --epsilon 10 --delta 1e-5 \\\n"
    "      --adjacency add-or-remove-one-record --classes cat,dog --image-shape 3x32x32 \\\n"
    "      --nominal-size 25000 --max-size 30000 --sampling-rate 50/25000 --capacity 112 \\\n"
    "      --convert rgb --resize crop",
)
def add(  # noqa: PLR0913 - one parameter a group of options
    task: Task,
    *,
    name: str = argument("NAME", "Of the data set."),
    source: Source,
    folder: Dir,
    declared: Declared,
    choices: Choices,
    reading: Reading,
) -> None:
    """Add a data set: its images and its budget, for ever.

    Everything about the data that analysts may know is typed in here and never read off the
    images: under add-or-remove even the number of images is private. With --adjacency
    add-or-remove-one-group the guarantee is for all images of one person, sizes count groups,
    --max-records-per-group is needed, and groups: --groups-key, --groups-from, or a column
    'group' in the --labels table.
    """
    from curator.administration import add_dataset as adding  # torch, seconds
    from curator.cli.recipe import favourite_of_recipe
    from curator.data.capacity import capacity_warning
    from curator.mechanisms.public_networks import choose_networks
    from curator.privacy.adjacency import Unit
    from curator.sources.preflight import PRIVATE, report_lines

    into = opened(folder)
    task.output.stops = choices.dry_run
    facts = declared.facts(name)
    most = facts.max_size if facts.unit is Unit.RECORD else None  # a group has any number of images
    asked = reading.options(declared.classes, declared.image_shape, declared.max_level)
    options = replace(asked, max_images=most)
    favourite, favours = None, []
    if choices.favour is not None:
        choose_networks(into.networks)
        favourite, words = favourite_of_recipe(choices.favour, facts)
        favours.append(words)
    with _interruptible(
        "interrupted; 'curator dataset list' says whether the data set was added, and unless it "
        "was, nothing is left of it"
    ):
        chosen = adding.Choices(
            favourite=favourite,
            most_shared=_part(choices.max_shared),
            num_canaries=choices.canaries or 0,
        )
        carry_out = adding.try_dataset if choices.dry_run else adding.add_dataset
        added = carry_out(into, facts, source, options, progress_for(task.screen), chosen)
    warning = capacity_warning(facts)
    if warning is not None:
        sys.stderr.write(f"curator: warning: {warning}\n")
    shared = {overlap.name: overlap.shared for overlap in added.overlaps}
    survey = added.survey.as_json() | {"shared": shared, "note": PRIVATE}
    answer = {"public": facts.model_dump(mode="json"), "private": survey}
    task.screen.answer(answer | ({"added": False} if choices.dry_run else {}))
    _, *report = report_lines(added.survey)  # the number of images is in the lines before
    said = _tried(facts) if choices.dry_run else _added(facts, source, into.root)
    task.screen.tell(*added.lines, *report, *said, *favours)


def _tried(facts: DatasetFacts) -> tuple[str, ...]:
    return (
        f"{facts.name} would be added with {_terms(facts)}",
        "nothing was written: run the same command without --dry-run to add it",
    )


def _added(facts: DatasetFacts, source: str, root: Path) -> tuple[str, ...]:
    """Return what was done, and what to do next."""
    at = quote(str(root))
    return (
        f"{facts.name} added with {_terms(facts)}",
        *_source_left(source),
        f"next: curator analyst add NAME --dir {at}; curator serve --dir {at}",
    )


def _terms(facts: DatasetFacts) -> str:
    budget = f"budget ({facts.epsilon:g}, {facts.delta:g}), {facts.adjacency}"
    return f"{budget}; the lines above are private, the declared facts are public"


def _source_left(source: str) -> tuple[str, ...]:
    """Return what to do with the images that were read, where they are files of the steward."""
    from curator.data.group_names import shown

    if source.startswith("sklearn:"):
        return ()
    left = f"{shown(source)} is not needed any more and still holds the images"
    return (f"{left}: remove it, or keep it where only its owner can read it",)


def _part(part: float) -> float:
    """Check a part of a whole.

    Raises:
        UsageProblem: If it is none.
    """
    if not 0 <= part <= 1:
        msg = "--max-shared must be from 0 to 1"
        raise UsageProblem(msg)
    return part


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
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
