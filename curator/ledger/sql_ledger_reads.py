"""What a ledger in a database shows; every answer is read off one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from curator.ledger import rows, run_rows
from curator.ledger.anchor import Note
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.checkpoint import UNKNOWN, Checkpoint
from curator.ledger.datasets_and_runs import DatasetState, RunState, RunStatus
from curator.ledger.ledger import Ledger
from curator.ledger.problems import LedgerRestored
from curator.ledger.replicas import load_objections, load_settled
from curator.ledger.rollback_guard import WatchedStore
from curator.ledger.shared import checked_payload
from curator.ledger.totals import EVERYBODY

_PAGE = 1000


class SqlReadings(Ledger):
    """The half of `SqlLedger` that changes nothing."""

    def __init__(self, store: WatchedStore) -> None:
        """Keep the store."""
        self._store = store

    def close(self) -> None:
        """Close every connection and give the lock back; nothing is written after that."""
        self._store.close()

    @property
    def lost(self) -> LedgerRestored | None:
        """Why nothing may be released any more: it went back; None while all is well."""
        return self._store.lost

    def objections(self) -> tuple[Note, ...]:
        """Return what other replicas know and this ledger lacks; PostgreSQL only."""
        with self._store.reading() as connection:
            return load_objections(connection)

    def went_on_after(self, known: Note) -> int | None:
        """Return after which entry others charged who lacked what `known` has, None if nobody."""
        with self._store.reading() as connection:
            settled = load_settled(connection)
        return settled.after if settled.count > known.servers else None

    def _read(
        self, dataset: str, analysts: Collection[str] | None = (), *, with_runs: bool = False
    ) -> Book:
        """See `Ledger`."""
        whose = () if analysts is None else (EVERYBODY, *analysts)
        with self._store.reading() as connection:
            book = rows.load_account(connection, dataset, whose)
            if with_runs:
                book.runs = run_rows.load_open_runs(connection, dataset=dataset)
        return book

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            found = rows.load_datasets(connection)
        return tuple(found[name] for name in sorted(found))

    def setup_payload(self, run_id: str) -> bytes | None:
        """See `Ledger`."""
        with self._store.reading() as connection:
            run = Book(runs=run_rows.load_run(connection, run_id)).run(run_id)
            return checked_payload(run, rows.load_payload(connection, run_id))

    def run(self, run_id: str) -> RunState:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return Book(runs=run_rows.load_run(connection, run_id)).run(run_id)

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> Iterator[RunState]:
        """See `Ledger`; each page is what it is when it is read."""
        after = 0
        while True:
            with self._store.reading() as connection:
                page = run_rows.load_page(connection, after, dataset=dataset, analyst=analyst)
            if not page:
                return
            yield from map(run_rows.run_of, page)
            after = page[-1].position

    def open_runs(
        self, dataset: str | None = None, analyst: str | None = None
    ) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            found = run_rows.load_open_runs(connection, dataset=dataset, analyst=analyst)
        return tuple(found.values())

    def latest_runs(
        self,
        at_most: int,
        analyst: str | None = None,
        status: RunStatus | None = None,
        before: str | None = None,
    ) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            found = run_rows.load_latest_runs(
                connection, at_most, before, analyst=analyst, status=status
            )
        return tuple(found.values())

    def num_closed(self, analyst: str | None = None) -> int:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return rows.count_closed(connection, EVERYBODY if analyst is None else analyst)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """See `Ledger`; entries appended meanwhile are returned too."""
        while True:
            with self._store.reading() as connection:
                page = rows.load_entries(connection, after, _PAGE)
            if not page:
                return
            yield from page
            after = page[-1].seq

    def head(self) -> tuple[int, str]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return rows.load_head(connection)

    def verify(self) -> None:
        """See `Ledger`.

        Raises:
            ChainBroken: If an entry, a shown row or a stored setup was changed.
        """
        self.verify_from(UNKNOWN)

    def verify_from(self, known: Checkpoint) -> None:
        """Verify everything, from a checkpoint on.

        Raises:
            ChainBroken: If an entry, a shown row or a stored setup was changed.
        """
        with self._store.reading() as connection:
            known.verify(connection)
