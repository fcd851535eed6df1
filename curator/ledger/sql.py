"""The durable ledger: one synced transaction for each change, and no state of its own.

Every change loads what it is about, lets `Book` decide, appends the entry and shows the result,
inside one transaction of a `Store`: of a SQLite file with one writing process, or of a PostgreSQL
database with several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, final

from sqlalchemy import Connection

from curator.errors import LedgerUnavailable
from curator.ledger import connect, postgres, rows, run_rows
from curator.ledger import entries as kinds
from curator.ledger.anchor import HeadAnchor, Note
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.checkpoint import UNKNOWN, Checkpoint
from curator.ledger.entry_times import EntryTimes
from curator.ledger.lease import Lease, refuse_while_alive
from curator.ledger.lock import WriterLock
from curator.ledger.problems import HolderAlive, HolderLost, LedgerRestored
from curator.ledger.records import DatasetRegistration, DatasetState, RunOpening, RunState
from curator.ledger.rollback_guard import WatchedStore, accept_chain
from curator.ledger.shared import check_kept, checked_opening, is_repeated_mark
from curator.ledger.sql_readings import SqlReadings
from curator.ledger.store import Store

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

    def register_dataset(
        self, registration: DatasetRegistration, favourite: float | None = None
    ) -> DatasetState:
        """See `Ledger`."""
        happening = kinds.DatasetRegistered.favouring(registration, favourite)

        def work(connection: Connection) -> DatasetState:
            book = Book(datasets=rows.load_datasets(connection))
            self._append(connection, book, happening)
            state = book.dataset(registration.name)
            rows.insert_dataset(connection, state)
            return state

        return self._change(work, _name_of)

    def decide(self, decision: kinds.Decision) -> DatasetState:
        """See `Ledger`."""

        def work(connection: Connection) -> DatasetState:
            book = rows.load_account(connection, decision.dataset)
            self._append(connection, book, decision)
            state = book.dataset(decision.dataset)
            rows.update_dataset(connection, state)
            return state

        return self._change(work, _name_of)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """See `Ledger`."""
        happening = kinds.RunOpened(opening=checked_opening(opening), holder=holder)

        def work(connection: Connection) -> RunState:
            book = rows.load_account(connection, opening.dataset, opening.analyst)
            book.runs = run_rows.load_run(connection, opening.run_id)
            self._append(connection, book, happening)
            state = book.run(opening.run_id)
            run_rows.insert_run(connection, state)
            return state

        return self._change(work, lambda state: state.dataset)

    def adopt_run(self, run_id: str, holder: str) -> RunState:
        """See `Ledger`."""
        return self._happen(kinds.RunAdopted(run_id=run_id, holder=holder))

    def advance_mark(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.MarkAdvanced(run_id=run_id, holder=holder, epoch=epoch, used=used)
        )

    def relinquish_run(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.RunRelinquished(run_id=run_id, holder=holder, epoch=epoch, used=used)
        )

    def begin_setup(self, run_id: str, holder: str, epoch: int) -> RunState:
        """See `Ledger`."""
        return self._happen(kinds.SetupBegun(run_id=run_id, holder=holder, epoch=epoch))

    def store_setup(self, run_id: str, holder: str, epoch: int, payload: bytes) -> RunState:
        """See `Ledger`."""
        digest = hashlib.sha256(payload).hexdigest()
        return self._happen(
            kinds.SetupStored(run_id=run_id, holder=holder, epoch=epoch, digest=digest), payload
        )

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.RunClosed(run_id=run_id, holder=holder, epoch=epoch, used=used, reason=reason)
        )

    def _happen(self, event: kinds.RunEvent, payload: bytes | None = None) -> RunState:
        def work(connection: Connection) -> RunState:
            found = run_rows.load_run(connection, event.run_id)
            before = Book(runs=found).run(event.run_id)
            if is_repeated_mark(before, event):
                return before
            book = rows.load_account(connection, before.dataset, before.analyst)
            book.runs = found
            check_kept(book, before, event)
            if isinstance(event, kinds.RunAdopted):
                refuse_while_alive(connection, before.holder, event.holder)
            self._append(connection, book, event)
            state = book.run(event.run_id)
            run_rows.update_run(connection, state)
            if payload is not None:
                rows.insert_payload(connection, event.run_id, payload)
            return state

        return self._change(work, lambda state: None if state.is_open else state.dataset)

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

    def _append(self, connection: Connection, book: Book, happening: kinds.Happening) -> None:
        at, before = self._times.now().isoformat(), dict(book.totals)
        book.apply(happening, at)
        kind, body = kinds.encode(happening)
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


def _name_of(state: DatasetState) -> str:
    return state.registration.name
