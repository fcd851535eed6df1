"""Whether all that a database shows follows from its entries, a page of them in memory at a time.

Every entry's place in the chain is checked. Those up to a checkpoint are not replayed again: the
same software replayed them, to the digest, when the checkpoint was kept. What they came to is taken
from it: data sets, totals and open runs, from which the later entries go on, and a digest of the
runs that were closed by then.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from sqlalchemy import Connection

from curator.ledger import rows, run_rows
from curator.ledger.book import Book, Place, check_follows
from curator.ledger.chain import GENESIS
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.problems import ChainBroken
from curator.ledger.rebuild_check import Watcher, check_shown, refuse
from curator.ledger.run_rows import RunReader

_NO_RUNS = hashlib.sha256().hexdigest()


@dataclass(slots=True)
class Known:
    """What was verified: up to which entry, up to which row of runs, and those that are closed."""

    place: Place = field(default_factory=Place)
    position: int = 0
    closed: str = _NO_RUNS


def verify_rows(connection: Connection, known: Known, watcher: Watcher | None = None) -> Known:
    """Compare with the entries: the data sets, the runs, their totals, the stored setups.

    Args:
        connection: Reads one snapshot.
        known: What was verified before; it is used up.
        watcher: Is told of every entry that is replayed.

    Raises:
        ChainBroken: If an entry, a shown row, a total or a stored setup was changed.
    """
    place, reader = known.place, RunReader(connection)
    try:
        shown = Book(
            datasets=rows.load_datasets(connection),
            totals=rows.load_totals(connection),
            runs=_read_known(reader, known),
        )
        _check_chain(connection, place.head)
        later = map(run_rows.run_of, reader.rows())
        lines = rows.entries_after(connection, place.head[0])
        check_shown(lines, shown, later, place, watcher)
        changed = rows.changed_payload(connection)
    except (ValueError, TypeError, KeyError) as error:
        msg = "a row of the ledger cannot be read"
        raise ChainBroken(msg) from error
    if changed is not None:
        msg = f"the stored setup of run {changed!r} is not what its entry says"
        raise ChainBroken(msg)
    return Known(place, reader.position, reader.digest)


def _read_known(reader: RunReader, known: Known) -> dict[str, RunState]:
    """Read the runs of before the checkpoint.

    Returns:
        What is shown of those that were open then.

    Raises:
        ChainBroken: If one that was closed is shown otherwise now.
    """
    still, closed, book = {}, hashlib.sha256(), known.place.book
    for row in reader.rows(known.position):
        known.place.ids.add(row.run_id)
        if row.run_id in book.runs:
            still[row.run_id] = run_rows.run_of(row)
        else:
            closed.update(run_rows.line_of(row))
    if closed.hexdigest() != known.closed:
        refuse("a closed run is shown")
    return still


def _check_chain(connection: Connection, until: tuple[int, str]) -> None:
    """Check that all entries up to one follow each other from the first.

    Raises:
        ChainBroken: If one was changed, or the last one is another.
    """
    head = (0, GENESIS)
    for entry in rows.entries_after(connection, 0):
        if head[0] == until[0]:
            break
        check_follows(entry, head)
        head = (entry.seq, entry.digest)
    if head != until:
        refuse(f"entry {until[0]} is shown")
