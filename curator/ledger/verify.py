"""Whether all that a database shows follows from its entries, one row in memory at a time."""

from __future__ import annotations

from sqlalchemy import Connection

from curator.ledger import rows
from curator.ledger.book import replay
from curator.ledger.problems import ChainBroken
from curator.ledger.shared import check_counted, check_shown, checked_payload


def verify_rows(connection: Connection) -> None:
    """Replay the entries and compare: the data sets, the runs, their totals, the stored setups.

    Raises:
        ChainBroken: If an entry, a shown row, a total or a stored setup was changed.
    """
    try:
        told, _ = replay(rows.all_entries(connection))
        check_shown(told, rows.load_book(connection))
        for name in told.datasets:
            check_counted(told, rows.load_account(connection, name), name)
        for run in told.runs.values():
            checked_payload(run, rows.load_payload(connection, run.run_id))
    except (ValueError, TypeError, KeyError) as error:
        msg = "a row of the ledger cannot be read"
        raise ChainBroken(msg) from error
