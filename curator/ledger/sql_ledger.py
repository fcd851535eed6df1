"""The durable ledger: one synced transaction for each change, and no state of its own.

Every change loads what it is about, lets `Book` decide, appends the entry and shows the result,
inside one transaction of a `Store`: of a SQLite file with one writing process, or of a PostgreSQL
database with several.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, final, overload

from sqlalchemy import Connection

from curator.errors import LedgerUnavailable
from curator.ledger import connect, postgres, rows, run_rows
from curator.ledger import entries as events
from curator.ledger.anchor import HeadAnchor, Note
from curator.ledger.book import Book
from curator.ledger.chain import Entry, EntryTimes
from curator.ledger.checkpoint import UNKNOWN, Checkpoint
from curator.ledger.datasets_and_runs import DatasetState, RunState
from curator.ledger.file_lock import WriterLock
from curator.ledger.lease import Lease, refuse_while_alive
from curator.ledger.problems import HolderAlive, HolderLost, LedgerRestored
from curator.ledger.rollback_guard import WatchedStore, accept_chain
from curator.ledger.shared import check_kept, is_repeated_mark
from curator.ledger.sql_ledger_reads import SqlReadings
from curator.ledger.totals import EVERYBODY
from curator.ledger.transactions import Store

T = TypeVar("T")
Clock = Callable[[], datetime]


@final
class SqlLedger(SqlReadings):
    """The ledger's promise on a database; open it with one of the `open_...` methods."""

    def __init__(self, store: WatchedStore, clock: Clock) -> None:
        """Keep the store; `clock` returns the time in UTC."""
        super().__init__(store)
        self._times = EntryTimes(clock)
        self._failed = False

    @classmethod
    def open_writer(
        cls, path: Path, clock: Clock, anchor: HeadAnchor | None = None, known: Checkpoint = UNKNOWN
    ) -> Self:
        """Open the ledger at `path`, made if there is none, and verify all of it.

        Raises:
            LedgerLocked: If another process writes it.
            LedgerRestored: If it lacks what `anchor` has seen in it.
            LedgerFromTheFuture: If a newer version wrote it.
            ChainBroken: If anything in it was changed by other means.
            LedgerUnavailable: If the file cannot be read or written.
        """
        lock = WriterLock(path.with_name(path.name + ".lock"))
        try:
            connect.make_private_file(path)
        except LedgerUnavailable:
            lock.release()
            raise
        reader, writer = connect.reader_engine(path), connect.writer_engine(path)
        store = Store(reader=reader, writer=writer, lock=lock)
        ledger = cls(WatchedStore(store, anchor, path), clock)
        ledger._prepare(store, partial(connect.prepare_file, anchor), known)
        ledger._meet_anchor()
        return ledger

    @classmethod
    def open_reader(cls, path: Path, clock: Clock) -> Self:
        """Open an existing ledger without the right to change it, beside a running writer.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            LedgerUnavailable: If there is no readable ledger.
        """
        ledger = cls(WatchedStore(Store(reader=connect.reader_engine(path))), clock)
        ledger._recognise()
        return ledger

    @classmethod
    def open_database(
        cls, where: str, clock: Clock, anchor: HeadAnchor | None = None, known: Checkpoint = UNKNOWN
    ) -> Self:
        """Open the ledger in a PostgreSQL database; other processes may write it too.

        Raises:
            LedgerRestored: If it lacks what `anchor` has seen in it.
            LedgerFromTheFuture: If a newer version wrote it.
            ChainBroken: If anything in it was changed by other means.
            LedgerUnavailable: If the server cannot be reached, or does not sync its commits.
        """
        url = postgres.database_url(where)
        reader, maintenance = postgres.reader_engine(url), postgres.maintenance_engine(url)
        store = Store(reader=reader, writer=maintenance)
        ledger = cls(WatchedStore(store, anchor), clock)
        ledger._prepare(store, partial(connect.prepare_database, anchor), known)
        ledger.close()
        reader, writer = postgres.reader_engine(url), postgres.writer_engine(url)
        ledger = cls(WatchedStore(Store(reader=reader, writer=writer), anchor), clock)
        ledger._meet_anchor()
        return ledger

    @classmethod
    def open_database_reader(cls, location: str, clock: Clock) -> Self:
        """Open the ledger in a PostgreSQL database without the right to change it.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            LedgerUnavailable: If there is no readable ledger.
        """
        url = postgres.database_url(location)
        ledger = cls(WatchedStore(Store(reader=postgres.reader_engine(url))), clock)
        ledger._recognise()
        return ledger

    def is_writable(self) -> bool:
        """Return whether the last change was durable, trying an empty one if it was not."""
        try:
            self._store.look()
            if self._failed:
                self._change(rows.touch)
        except LedgerUnavailable:
            return False
        return True

    def take_lease(self, holder: str, seconds: float) -> Lease:
        """Keep others from adopting this holder's runs while it beats; PostgreSQL only."""
        self._store.settle_within(seconds)
        return Lease(self._store, holder, seconds)

    def accepted(self) -> Note:
        """Forget the objections and return what is to be noted, once all loss is counted."""
        return self._change(accept_chain)

    @overload
    def _record(self, event: events.DatasetRegistered | events.Decision) -> DatasetState: ...
    @overload
    def _record(
        self, event: events.RunOpened | events.RunEvent, payload: bytes | None = None
    ) -> RunState: ...
    def _record(
        self, event: events.LedgerEvent, payload: bytes | None = None
    ) -> DatasetState | RunState:
        """See `Ledger`."""

        def work(connection: Connection) -> DatasetState | RunState:
            if isinstance(event, events.RunEvent):
                return self._go_on(connection, event, payload)
            if isinstance(event, events.RunOpened):
                return self._open(connection, event)
            if isinstance(event, events.Decision):
                return self._decide(connection, event)
            return self._register(connection, event)

        return self._change(work, lambda state: _moved_dataset(event, state))

    def _register(self, connection: Connection, event: events.DatasetRegistered) -> DatasetState:
        book = Book(datasets=rows.load_datasets(connection))
        self._append(connection, book, event)
        state = book.dataset(event.registration.name)
        rows.insert_dataset(connection, state)
        return state

    def _decide(self, connection: Connection, decision: events.Decision) -> DatasetState:
        book = rows.load_account(connection, decision.dataset)
        self._append(connection, book, decision)
        state = book.dataset(decision.dataset)
        rows.update_dataset(connection, state)
        return state

    def _open(self, connection: Connection, event: events.RunOpened) -> RunState:
        opening = event.opening
        book = rows.load_account(connection, opening.dataset, (EVERYBODY, opening.analyst))
        book.runs = run_rows.load_run(connection, opening.run_id)
        self._append(connection, book, event)
        state = book.run(opening.run_id)
        run_rows.insert_run(connection, state)
        return state

    def _go_on(
        self, connection: Connection, event: events.RunEvent, payload: bytes | None
    ) -> RunState:
        found = run_rows.load_run(connection, event.run_id)
        before = Book(runs=found).run(event.run_id)
        if is_repeated_mark(before, event):
            return before
        book = rows.load_account(connection, before.dataset, (EVERYBODY, before.analyst))
        book.runs = found
        check_kept(book, before, event)
        if isinstance(event, events.RunAdopted):
            refuse_while_alive(connection, before.holder, event.holder)
        self._append(connection, book, event)
        state = book.run(event.run_id)
        run_rows.update_run(connection, state)
        if payload is not None:
            rows.insert_payload(connection, event.run_id, payload)
        return state

    def _change(
        self,
        work: Callable[[Connection], T],
        changed: Callable[[T], str | None] = lambda _: None,
    ) -> T:
        """Run one change, and let the anchor see it before anybody relies on it.

        Raises:
            LedgerUnavailable: If either may not be durable.
        """
        try:
            result = self._store.change(work, changed)
        except LedgerUnavailable as error:
            self._failed = not isinstance(error, HolderLost | HolderAlive)
            raise
        self._failed = False
        return result

    def _append(self, connection: Connection, book: Book, event: events.LedgerEvent) -> None:
        at, before = self._times.now().isoformat(), dict(book.totals)
        book.apply(event, at)
        kind, body = events.encode(event)
        rows.insert_entry(connection, Entry.following(rows.load_head(connection), at, kind, body))
        rows.save_totals(connection, before, book.totals)

    def _prepare(self, store: Store, make: Callable[[Connection], None], known: Checkpoint) -> None:
        """Make the tables if there are none and verify everything, or close."""
        try:
            store.change(make)
            self.verify_from(known)
        except BaseException as error:
            if isinstance(error, LedgerRestored):
                self._store.lose(error)
            self.close()
            raise

    def _meet_anchor(self) -> None:
        """Refuse a ledger that lacks what the anchor has seen; let a new anchor see all of it."""
        try:
            last = self._change(rows.load_last)
        except BaseException:
            self.close()
            raise
        self._times.begin(last.at if last else None)

    def _recognise(self) -> None:
        """Check the version, or close."""
        try:
            with self._store.reading() as connection:
                connect.refuse_other_versions(connection)
        except BaseException:
            self.close()
            raise


def _moved_dataset(event: events.LedgerEvent, state: DatasetState | RunState) -> str | None:
    """Return whose account the head's file is to show anew: not after every step of a run."""
    if isinstance(state, DatasetState):
        return state.registration.name
    goes_on = state.is_open and not isinstance(event, events.RunOpened)
    return None if goes_on else state.dataset
