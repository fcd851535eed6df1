"""Add a data set: read, check against the declaration, store, then register its budget."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from curator.administer import administer
from curator.administration.commands import Register
from curator.config import load_config
from curator.data.errors import SourceError
from curator.data.groups import limit_groups
from curator.data.preflight import check_source
from curator.data.readers import read_source
from curator.data.store import content_fingerprint, write_store
from curator.folder import CuratorFolder
from curator.identity.certificates import write_private
from curator.ledger.ledger import DatasetExists
from curator.open_ledger import open_ledger_reader
from curator.privacy.facts import DatasetFacts


def add_dataset(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    keys: tuple[str, str] | None = None,
    groups_key: str | None = None,
) -> tuple[str, ...]:
    """Add a data set, also to a curator that is serving.

    Args:
        folder: The curator's folder.
        facts: What the steward declares.
        source: Where the images are; see `curator.data.readers`.
        keys: Array names of an NPZ file.
        groups_key: Name of its array of groups, if the declared unit is a group.

    Returns:
        The preflight's lines, for the steward alone.

    Raises:
        SourceError: If the source cannot be read, does not fit the declaration, or is known under
            another name.
        DatasetExists: If the name is taken; a budget never changes.
    """
    with _alone(folder):
        registered = _registered_names(folder)
        if facts.name in registered:
            msg = f"'{facts.name}' is registered already; its budget and facts never change"
            raise DatasetExists(msg)
        images = read_source(source, keys=keys, groups_key=groups_key)
        report = check_source(images, facts)
        fingerprint = content_fingerprint(images, folder.fingerprint_key.read_bytes())
        known = {name: value for name, value in _fingerprints(folder).items() if name in registered}
        if fingerprint in known.values():
            name = next(name for name, value in known.items() if value == fingerprint)
            msg = (
                f"the same images are registered as '{name}': a second budget for them would "
                "double what is released about the same people"
            )
            raise SourceError(msg)
        if facts.max_records_per_group is not None:
            images = limit_groups(images, facts.max_records_per_group)
        path = folder.images(facts.name)
        if path.exists():  # left by an interrupted command; the ledger does not know it
            shutil.rmtree(path)
        write_store(path, images)
        write_private(folder.fingerprints, json.dumps(known | {facts.name: fingerprint}).encode())
        administer(folder, Register(facts=facts))
    return report


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
