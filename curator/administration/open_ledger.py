"""Open the ledger that the configuration names: a file in the folder, or a PostgreSQL database."""

from __future__ import annotations

from curator.clock import utc_now
from curator.config import CuratorConfig
from curator.folder import CuratorFolder
from curator.ledger.anchor import HeadAnchor
from curator.ledger.checkpoint import UNKNOWN, Checkpoint
from curator.ledger.connect import has_tables
from curator.ledger.sql_ledger import SqlLedger


def open_ledger(
    folder: CuratorFolder,
    config: CuratorConfig,
    *,
    is_restored: bool = False,
    known: Checkpoint | None = None,
) -> SqlLedger:
    """Open the ledger for writing.

    Args:
        folder: The curator's folder.
        config: The steward's configuration.
        is_restored: Do not compare it with the head that is kept outside.
        known: What was verified before; by default what the folder has of it.

    Raises:
        LedgerLocked: If another process writes the file.
        LedgerRestored: If an older copy was put in its place.
    """
    anchor = None if is_restored else HeadAnchor(folder.head_file(config))
    if known is None:
        known = UNKNOWN if is_restored else Checkpoint(folder.checkpoint)
    if config.database:
        return SqlLedger.open_database(config.database, utc_now, anchor, known)
    return SqlLedger.open_writer(folder.ledger, utc_now, anchor, known)


def open_ledger_reader(folder: CuratorFolder, config: CuratorConfig) -> SqlLedger:
    """Open the ledger without the right to change it, also while a curator serves.

    Args:
        folder: The curator's folder.
        config: The steward's configuration.
    """
    if config.database:
        return SqlLedger.open_database_reader(config.database, utc_now)
    return SqlLedger.open_reader(folder.ledger, utc_now)


def make_database_tables(folder: CuratorFolder, config: CuratorConfig) -> None:
    """Make the ledger's tables in the configured database if it has none; change no others.

    Args:
        folder: The curator's folder; it keeps the ledger's head.
        config: The steward's configuration, with a database.
    """
    if has_tables(config.database):
        open_ledger_reader(folder, config).close()
    else:
        open_ledger(folder, config).close()
