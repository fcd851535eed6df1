"""Whether all that a database shows follows from its entries, a page in memory at a time."""

from __future__ import annotations

from sqlalchemy import Connection

from curator.ledger import rows, run_rows
from curator.ledger.book import Book, Watch
from curator.ledger.problems import ChainBroken
from curator.ledger.shown import check_shown


def verify_rows(connection: Connection, watch: Watch | None = None) -> None:
    """Replay the entries and compare: the data sets, the runs, their totals, the stored setups.

    Args:
        connection: Reads one snapshot.
        watch: Is told of every entry as it is replayed.

    Raises:
        ChainBroken: If an entry, a shown row, a total or a stored setup was changed.
    """
    try:
        shown = Book(datasets=rows.load_datasets(connection), totals=rows.load_totals(connection))
        check_shown(rows.all_entries(connection), shown, run_rows.all_runs(connection), watch)
        changed = rows.changed_payload(connection)
    except (ValueError, TypeError, KeyError) as error:
        msg = "a row of the ledger cannot be read"
        raise ChainBroken(msg) from error
    if changed is not None:
        msg = f"the stored setup of run {changed!r} is not what its entry says"
        raise ChainBroken(msg)
