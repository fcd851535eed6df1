"""Add a data set: read, check against the declaration, store, then register its budget."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from curator.administer import administer
from curator.administration.commands import Register
from curator.config import load_config
from curator.data.capacity import check_capacity
from curator.data.groups import limit_groups
from curator.data.options import Progress, SourceOptions, no_progress
from curator.data.overlap import MOST_SHARED, Overlap
from curator.data.preflight import check_source
from curator.data.source import ingest_source
from curator.data.store import sweep_partial, write_store
from curator.data.survey import Survey
from curator.folder import CuratorFolder
from curator.known_images import KnownImages
from curator.ledger.ledger import DatasetExists
from curator.ledger.records import DatasetState
from curator.open_ledger import open_ledger_reader
from curator.privacy.facts import DatasetFacts


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
    `most_shared` the part of the images that may have a budget already.
    """

    favourite: float | None = None
    most_shared: float = MOST_SHARED


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
        source: Where the images are; see `curator.data.readers` and `curator.data.source`.
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
    with _alone(folder):
        choices = choices or Choices()
        states = _registered(folder)
        if facts.name in {state.registration.name for state in states}:
            msg = f"'{facts.name}' is registered already; its budget and facts never change"
            raise DatasetExists(msg)
        check_capacity(facts)
        datasets = folder.images(facts.name).parent
        sweep_partial(datasets)
        images, survey = ingest_source(source, options or SourceOptions(), datasets, progress)
        lines = check_source(images, facts)
        known = KnownImages(folder)
        hashes = known.hashes(images)
        overlaps, told = known.compare(images, hashes, states, choices.most_shared)
        if facts.max_records_per_group is not None:
            images = limit_groups(images, facts.max_records_per_group, datasets)
        with _taken_back(folder, facts.name):
            write_store(folder.images(facts.name), images)
            known.keep(facts.name, hashes)
            administer(folder, Register(facts=facts, favourite=choices.favourite))
    lines += (*(overlap.line for overlap in overlaps), *told)
    return Added(lines=lines, survey=survey, overlaps=overlaps)


@contextmanager
def _taken_back(folder: CuratorFolder, name: str) -> Iterator[None]:
    """Delete the stored images again unless the ledger knows them in the end."""
    path = folder.images(name)
    if path.exists():  # left by a killed command; the ledger does not know it
        shutil.rmtree(path)
    try:
        yield
    except BaseException:
        if name not in {state.registration.name for state in _registered(folder)}:
            shutil.rmtree(path, ignore_errors=True)
            KnownImages(folder).forget(name)
        raise


@contextmanager
def _alone(folder: CuratorFolder) -> Iterator[None]:
    """Let one command at a time add a data set."""
    with (folder.root / "datasets" / ".adding.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _registered(folder: CuratorFolder) -> tuple[DatasetState, ...]:
    ledger = open_ledger_reader(folder, load_config(folder.config))
    try:
        return tuple(ledger.datasets())
    finally:
        ledger.close()
