"""Whether all that a database shows follows from its entries, a page of them in memory at a time.

Every entry's place in the chain is checked. Those up to a checkpoint are not replayed again: the
same software replayed them, to the digest, when the checkpoint was kept. What they came to is taken
from it: data sets, totals and open runs, from which the later entries go on, and a digest of the
runs that were closed by then.

Runs are shown in the order in which they were opened, so both are read once, side by side: the
shown run is taken up with the entry that opened it, and compared when it is closed or at the end.
Totals are compared with those that followed every entry, and with the sums over the shown runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, Protocol, final

from sqlalchemy import Connection

from curator.ledger import rows, run_rows
from curator.ledger.book import Book, Place, check_follows, follow
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.datasets_and_runs import DatasetState, RunState
from curator.ledger.problems import ChainBroken
from curator.ledger.run_rows import RunReader
from curator.ledger.totals import Sums


class Watcher(Protocol):
    """Sees every entry of a ledger once, and can go on where it was when that was kept."""

    def see(self, entry: Entry, state: DatasetState | RunState, book: Book) -> None:
        """Take in an entry, what it changed, and the book after it, always the same."""
        ...

    def kept(self) -> dict[str, object]:
        """Return all that was taken in, as plain values."""
        ...

    def go_on(self, kept: dict[str, object], place: Place) -> None:
        """Start with what `kept` returned after an entry.

        Raises:
            ValueError: If it cannot be read.
        """
        ...


def check_shown(
    entries: Iterable[Entry],
    shown: Book,
    runs: Iterator[RunState],
    place: Place,
    watcher: Watcher | None = None,
) -> None:
    """Check that what a ledger shows is what its entries tell.

    Args:
        entries: All of them after the place.
        shown: The data sets, the totals, and the runs that are open at the place.
        runs: All that are shown and were opened later, in the order in which they were opened.
        place: Where to begin; it is at the end then.
        watcher: Is told of every entry as it is replayed.

    Raises:
        ChainBroken: If the chain does not hold, or a data set, a run or a total differs; the text
            names it.
    """
    beside, told = _Beside(runs, shown, place.book), place.book
    for entry, state in follow(entries, place):
        if isinstance(state, RunState):
            beside.see(state)
        if watcher is not None:
            watcher.see(entry, state, told)
    for name in {**told.datasets, **shown.datasets}:
        if told.datasets.get(name) != shown.datasets.get(name):
            refuse(f"the data set {name!r} is shown")
    beside.end(told)
    sums = beside.sums.totals()
    for key in {**told.totals, **shown.totals, **sums}:
        total = told.totals.get(key)
        if not total == shown.totals.get(key) == sums.get(key):
            refuse(f"the runs of data set {key[0]!r} are counted")


@final
class _Beside:
    """The shown runs, read beside a replay; sums are of the shown runs."""

    def __init__(self, runs: Iterator[RunState], shown: Book, begin: Book) -> None:
        self._runs = runs
        self._open = dict(shown.runs)
        self.sums = Sums(begin.totals)
        for run in begin.runs.values():
            self.sums.add(run, -1)

    def see(self, told: RunState) -> None:
        """Take up the row of a run that was opened, and compare that of one that was closed.

        Raises:
            ChainBroken: If they differ.
        """
        if told.run_id not in self._open:
            shown = next(self._runs, None)
            if shown is None or shown.run_id != told.run_id:
                refuse(f"the run {told.run_id!r} is shown")
            self._open[told.run_id] = shown
        if not told.is_open:
            self._compare(told)

    def end(self, told: Book) -> None:
        """Compare the runs that are open still.

        Raises:
            ChainBroken: If a run differs, or one is shown that was never opened.
        """
        for run in told.runs.values():
            self._compare(run)
        extra = next(self._runs, None)
        if extra is not None:
            refuse(f"the run {extra.run_id!r} is shown")

    def _compare(self, told: RunState) -> None:
        shown = self._open.pop(told.run_id, None)
        if shown is None or shown != told:
            refuse(f"the run {told.run_id!r} is shown")
        self.sums.add(shown)


def refuse(what: str) -> NoReturn:
    """Say what is not shown as the entries have it.

    Raises:
        ChainBroken: Always.
    """
    msg = f"{what} otherwise than the entries say"
    raise ChainBroken(msg)


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
