"""Add a data set: read, check against the declaration, store, then register its budget."""

from __future__ import annotations

import json
import shutil

from curator.clock import utc_now
from curator.data.errors import SourceError
from curator.data.groups import limit_groups
from curator.data.preflight import check_source
from curator.data.readers import read_source
from curator.data.store import content_fingerprint, write_store
from curator.folder import CuratorFolder
from curator.identity.certificates import write_private
from curator.ledger.ledger import DatasetExists, DatasetRegistration
from curator.ledger.sql import SqlLedger
from curator.privacy.facts import DatasetFacts


def add_dataset(
    folder: CuratorFolder,
    facts: DatasetFacts,
    source: str,
    keys: tuple[str, str] | None = None,
    groups_key: str | None = None,
) -> tuple[str, ...]:
    """Add a data set to a curator that is not serving.

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
    ledger = SqlLedger.open_writer(folder.ledger, utc_now)
    try:
        if any(state.registration.name == facts.name for state in ledger.datasets()):
            msg = f"'{facts.name}' is registered already; its budget and facts never change"
            raise DatasetExists(msg)
        images = read_source(source, keys=keys, groups_key=groups_key)
        report = check_source(images, facts)
        fingerprint = content_fingerprint(images, folder.fingerprint_key.read_bytes())
        registered = {state.registration.name for state in ledger.datasets()}
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
        ledger.register_dataset(
            DatasetRegistration(
                name=facts.name,
                budget=facts.budget,
                adjacency=facts.adjacency,
                facts_json=facts.model_dump_json(),
            )
        )
    finally:
        ledger.close()
    return report


def _fingerprints(folder: CuratorFolder) -> dict[str, str]:
    """Return fingerprints of data sets whose images are stored."""
    if not folder.fingerprints.exists():
        return {}
    known: dict[str, str] = json.loads(folder.fingerprints.read_bytes())
    return known
