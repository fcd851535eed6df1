"""Open what the ledger knows: each data set's public facts, and its stored images if it has any."""

from __future__ import annotations

import logging
import shutil

from curator.administration.registered_images import complete_hashes
from curator.data.errors import SourceError
from curator.data.levels import level_type
from curator.data.sampling import PrivateRecords
from curator.data.store import open_store
from curator.errors import UnknownDataset
from curator.folder import CuratorFolder
from curator.ledger.datasets_and_runs import DatasetState, DatasetStatus
from curator.ledger.problems import LedgerConflict
from curator.ledger.sql_ledger import SqlLedger
from curator.privacy.facts import DATASET_NAME, DatasetFacts
from curator.service.rehearsal import check_not_mixed
from curator.service.served_datasets import ServedDataset
from curator.state.folder import StateFolder

_logger = logging.getLogger(__name__)


def load_datasets(folder: CuratorFolder, ledger: SqlLedger) -> list[ServedDataset]:
    """Open every data set that the ledger knows, checking the stored images.

    One that is damaged is out of service, and the others are served.

    Args:
        folder: Where the images are.
        ledger: Which data sets there are, with their public facts.

    Raises:
        LedgerConflict: If there are private data and a rehearsal.
    """
    states = ledger.datasets()
    check_not_mixed(state.registration.name for state in states)
    return [_loaded_or_damaged(folder, state) for state in states]


def load_dataset(folder: CuratorFolder, ledger: SqlLedger, name: str) -> ServedDataset | None:
    """Open a data set that was added while this curator served.

    Returns:
        The data set, None if there is none that can be served, or it and a rehearsal are mixed.
    """
    if not DATASET_NAME.fullmatch(name):
        return None
    try:
        check_not_mixed(one.registration.name for one in ledger.datasets())
        return _load(folder, ledger.dataset(name))
    except (UnknownDataset, SourceError, LedgerConflict):
        return None


def _loaded_or_damaged(folder: CuratorFolder, state: DatasetState) -> ServedDataset:
    try:
        return _load(folder, state)
    except SourceError as problem:  # its words name the folder and what to do, and no record
        name = state.registration.name
        _logger.error("data set %s is out of service: %s", name, problem)  # noqa: TRY400
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        return ServedDataset(facts=facts, records=None, is_damaged=True)


def _load(folder: CuratorFolder, state: DatasetState) -> ServedDataset:
    """Open one data set; an erased one has no records, and loses what a crash left of them.

    Raises:
        SourceError: If stored images are damaged, or have another unit or depth than the ledger
            says.
    """
    facts = DatasetFacts.model_validate_json(state.registration.facts_json)
    path = folder.images(facts.name)
    for told in complete_hashes(folder, facts.name):  # first: an erased one's are kept, too
        _logger.warning("%s", told)
    if state.status is DatasetStatus.ERASED:
        shutil.rmtree(path, ignore_errors=True)
        StateFolder(folder.states).forget_dataset(facts.name)
        return ServedDataset(facts=facts, records=None)
    images = open_store(path)
    if images.max_per_group != facts.max_records_per_group:
        msg = f"{path}: the stored images have another unit than the ledger says; restore them"
        raise SourceError(msg)
    if images.levels.dtype != level_type(facts.max_level):
        msg = f"{path}: the stored images have another depth than the ledger says; restore them"
        raise SourceError(msg)
    try:
        records = PrivateRecords(images, facts.max_size)
    except ValueError:
        msg = f"{path}: the stored images do not fit the declared facts; restore them"
        raise SourceError(msg) from None
    return ServedDataset(facts=facts, records=records)
