"""Add a data set: read, check against the declaration, store, then register its budget."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from curator.administer import administer
from curator.administration.commands import Register
from curator.config import load_config
from curator.data.capacity import check_capacity
from curator.data.errors import SourceError
from curator.data.groups import limit_groups
from curator.data.options import Progress, SourceOptions, no_progress
from curator.data.preflight import check_source
from curator.data.source import ingest_source
from curator.data.store import content_fingerprint, sweep_partial, write_store
from curator.data.survey import Survey
from curator.folder import CuratorFolder
from curator.identity.certificates import write_private
from curator.ledger.ledger import DatasetExists
from curator.open_ledger import open_ledger_reader
from curator.privacy.facts import DatasetFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """What the steward is told about a new data set; private."""

    lines: tuple[str, ...]
    survey: Survey


def add_dataset(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    options: SourceOptions | None = None,
    progress: Progress = no_progress,
    favourite: float | None = None,
) -> Added:
    """Add a data set, also to a curator that is serving; an interrupted command leaves nothing.

    Args:
        folder: The curator's folder.
        facts: What the steward declares.
        source: Where the images are; see `curator.data.readers` and `curator.data.source`.
        options: How to read it.
        progress: Told how many image files of how many are done.
        favourite: The order that the budget's rule favours; by default what suits Gaussians best.

    Returns:
        The preflight's report, for the steward alone.

    Raises:
        SourceError: If the source cannot be read, does not fit the declaration, or is known under
            another name, or the capacity would cut most samples.
        DatasetExists: If the name is taken; a budget never changes.
    """
    with _alone(folder):
        registered = _registered_names(folder)
        if facts.name in registered:
            msg = f"'{facts.name}' is registered already; its budget and facts never change"
            raise DatasetExists(msg)
        check_capacity(facts)
        datasets = folder.images(facts.name).parent
        sweep_partial(datasets)
        images, survey = ingest_source(source, options or SourceOptions(), datasets, progress)
        lines = check_source(images, facts)
        fingerprint = content_fingerprint(images, folder.fingerprint_key.read_bytes())
        known = {name: value for name, value in _fingerprints(folder).items() if name in registered}
        _check_new(fingerprint, known)
        if facts.max_records_per_group is not None:
            images = limit_groups(images, facts.max_records_per_group, datasets)
        with _taken_back(folder, facts.name):
            write_store(folder.images(facts.name), images)
            named = known | {facts.name: fingerprint}
            write_private(folder.fingerprints, json.dumps(named).encode())
            administer(folder, Register(facts=facts, favourite=favourite))
    return Added(lines=lines, survey=survey)


def _check_new(fingerprint: str, known: dict[str, str]) -> None:
    """Check that no data set has the same content.

    Raises:
        SourceError: If one has.
    """
    for name, value in known.items():
        if value == fingerprint:
            msg = (
                f"the same images are registered as '{name}': a second budget for them would "
                "double what is released about the same people"
            )
            raise SourceError(msg)


@contextmanager
def _taken_back(folder: CuratorFolder, name: str) -> Iterator[None]:
    """Delete the stored images again unless the ledger knows them in the end."""
    path = folder.images(name)
    if path.exists():  # left by a killed command; the ledger does not know it
        shutil.rmtree(path)
    try:
        yield
    except BaseException:
        if name not in _registered_names(folder):
            shutil.rmtree(path, ignore_errors=True)
        raise


@contextmanager
def _alone(folder: CuratorFolder) -> Iterator[None]:
    """Let one command at a time add a data set."""
    with (folder.root / "datasets" / ".adding.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _registered_names(folder: CuratorFolder) -> set[str]:
    ledger = open_ledger_reader(folder, load_config(folder.config))
    try:
        return {state.registration.name for state in ledger.datasets()}
    finally:
        ledger.close()


def _fingerprints(folder: CuratorFolder) -> dict[str, str]:
    """Return fingerprints of data sets whose images are stored."""
    if not folder.fingerprints.exists():
        return {}
    known: dict[str, str] = json.loads(folder.fingerprints.read_bytes())
    return known
