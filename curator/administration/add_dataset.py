"""Add a data set: read, check against the declaration, store, then register its budget."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from curator.accounting.rule import BudgetRule
from curator.administration.administer import administer
from curator.administration.commands import Register
from curator.administration.open_ledger import open_ledger_reader
from curator.administration.registered_images import KnownImages, that_count
from curator.config import load_config
from curator.data.canaries import (
    CANARIES_FILE,
    Canaries,
    draw_canaries,
    packed,
    with_canaries,
)
from curator.data.capacity import check_capacity
from curator.data.groups import limit_groups
from curator.data.images import LabelledImages
from curator.data.levels import level_type
from curator.data.overlap import MOST_SHARED, Hashes, Overlap
from curator.data.scratch import in_type
from curator.data.store import sweep_partial, write_store
from curator.folder import CuratorFolder
from curator.ledger.datasets_and_runs import DatasetState
from curator.ledger.ledger import DatasetExists
from curator.privacy.facts import DatasetFacts
from curator.service.rehearsal import check_not_mixed
from curator.sources.ingest import ingest_source
from curator.sources.options import Progress, SourceOptions, no_progress
from curator.sources.preflight import check_source
from curator.sources.survey import Survey

_CANARIES: Final = "and {} canaries, of {} candidates for whom a coin decided"


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What the steward is told about a new data set; private."""

    lines: tuple[str, ...]
    survey: Survey
    overlaps: tuple[Overlap, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What the steward may choose for ever beside the public facts.

    `favourite` is the order that the budget's rule favours, None for what suits Gaussians best;
    `most_shared` the part of the images that may have a budget already; `num_canaries` how many
    candidates are drawn, of which about half are put in.
    """

    favourite: float | None = None
    most_shared: float = MOST_SHARED
    num_canaries: int = 0


def add_dataset(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    options: SourceOptions | None = None,
    progress: Progress = no_progress,
    choices: Choices | None = None,
) -> Added:
    """Add a data set, also to a curator that is serving; an interrupted command leaves nothing.

    Args:
        folder: The curator's folder.
        facts: What the steward declares.
        source: Where the images are; see `curator.sources.ingest`.
        options: How to read it.
        progress: Told how many image files of how many are done.
        choices: Which order the budget favours, and how many images may be known already.

    Returns:
        The preflight's report, for the steward alone.

    Raises:
        SourceError: If the source cannot be read, does not fit the declaration, or is known under
            another name, or shares too many images with known ones, or the capacity would cut most
            samples.
        DatasetExists: If the name is taken; a budget never changes.
    """
    choices = choices or Choices()
    with _alone(folder):
        sweep_partial(folder.images(facts.name).parent)
        known = KnownImages(folder)
        read = _read(folder, facts, source, known, _Reading(options, progress, choices))
        scratch = folder.images(facts.name).parent
        levels = in_type(read.images.levels, level_type(facts.max_level), scratch)
        images = replace(read.images, levels=levels)
        if facts.max_records_per_group is not None:
            images = limit_groups(images, facts.max_records_per_group, scratch)
        with _taken_back(folder, facts.name):
            others = {} if read.canaries is None else {CANARIES_FILE: packed(read.canaries)}
            write_store(folder.images(facts.name), images, others)
            known.keep(facts.name, read.hashes)
            administer(folder, Register(facts=facts, favourite=choices.favourite))
    return read.added


def try_dataset(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    options: SourceOptions | None = None,
    progress: Progress = no_progress,
    choices: Choices | None = None,
) -> Added:
    """Check all that `add_dataset` checks, in the same code, and write nothing.

    Args:
        folder: As for `add_dataset`, and so are the others.
        facts: What the steward declares.
        source: Where the images are.
        options: How to read it.
        progress: Told how many image files of how many are done.
        choices: What is chosen for ever.

    Returns:
        As `add_dataset` does.

    Raises:
        SourceError: As `add_dataset` does.
        DatasetExists: As `add_dataset` does.
        ValueError: If the favourite is no order of the grid.
    """
    choices = choices or Choices()
    BudgetRule.register(facts.budget, choices.favourite)
    known = KnownImages(folder, writes=False)
    return _read(folder, facts, source, known, _Reading(options, progress, choices)).added


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Read:
    """A source that may be added."""

    images: LabelledImages
    canaries: Canaries | None
    hashes: Hashes
    added: Added


class _Reading(NamedTuple):
    """How a source is read."""

    options: SourceOptions | None
    progress: Progress
    choices: Choices


def _read(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    known: KnownImages,
    reading: _Reading,
) -> _Read:
    """Read a source and check it against the declaration and all registered data sets.

    Raises:
        DatasetExists: If the name is taken.
        SourceError: If it may not be added.
    """
    every, states = _registered(folder)
    if facts.name in every:
        msg = (
            f"'{facts.name}' is registered already; its budget and facts never change, "
            "also not once it is erased: choose another name"
        )
        raise DatasetExists(msg)
    check_not_mixed([*every, facts.name])
    check_capacity(facts)
    datasets, options = folder.images(facts.name).parent, reading.options or SourceOptions()
    images, survey = ingest_source(source, options, datasets, reading.progress)
    lines = check_source(images, facts, more=reading.choices.num_canaries)
    hashes = known.hashes(images)  # of the source alone: what was drawn comes back in no other set
    overlaps, told = known.compare(images, hashes, states, reading.choices.most_shared)
    canaries = None
    if reading.choices.num_canaries:
        canaries = draw_canaries(facts.space, reading.choices.num_canaries)
        images = with_canaries(images, canaries, datasets)
        lines += (_CANARIES.format(int(canaries.is_in.sum()), len(canaries.is_in)),)
    lines += (*(overlap.line for overlap in overlaps), *told)
    return _Read(
        images=images,
        canaries=canaries,
        hashes=hashes,
        added=Added(lines=lines, survey=survey, overlaps=overlaps),
    )


@contextmanager
def _taken_back(folder: CuratorFolder, name: str) -> Iterator[None]:
    """Delete the stored images again unless the ledger knows them in the end."""
    path = folder.images(name)
    if path.exists():  # left by a killed command; the ledger does not know it
        shutil.rmtree(path)
    try:
        yield
    except BaseException:
        if name not in _registered(folder)[0]:
            shutil.rmtree(path, ignore_errors=True)
            KnownImages(folder).forget(name)
        raise


@contextmanager
def _alone(folder: CuratorFolder) -> Iterator[None]:
    """Let one command at a time add a data set."""
    with (folder.root / "datasets" / ".adding.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _registered(folder: CuratorFolder) -> tuple[set[str], tuple[DatasetState, ...]]:
    """Return the names that are taken, and the data sets whose images are compared."""
    with closing(open_ledger_reader(folder, load_config(folder.config))) as ledger:
        return {state.registration.name for state in ledger.datasets()}, that_count(ledger)
