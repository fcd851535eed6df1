"""The durable ledger: one synced transaction for each change, and no state of its own.

Every change loads what it is about, lets `Book` decide, appends the entry and shows the result,
inside one transaction of a `Store`: of a SQLite file with one writing process, or of a PostgreSQL
database with several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar, final

from sqlalchemy import Connection

from curator.errors import LedgerUnavailable
from curator.ledger import connect, postgres, rows
from curator.ledger import entries as kinds
from curator.ledger.anchor import HeadAnchor
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.lease import Lease, refuse_while_alive
from curator.ledger.lock import WriterLock
from curator.ledger.problems import HolderAlive, HolderLost
from curator.ledger.records import DatasetRegistration, DatasetState, RunOpening, RunState
from curator.ledger.shared import check_kept, checked_opening, is_repeated_mark
from curator.ledger.sql_readings import SqlReadings
from curator.ledger.store import Store

T = TypeVar("T")


@final
class SqlLedger(SqlReadings):
    """The ledger's promise on a database; open it with one of the `open_...` methods."""

    def __init__(
        self, store: Store, clock: Callable[[], datetime], anchor: HeadAnchor | None = None
    ) -> None:
        """Keep the store, and what keeps its head elsewhere; `clock` returns the time in UTC."""
        super().__init__(store)
        self._clock = clock
        self._anchor = anchor
        self._failed = False

    @classmethod
    def open_writer(
        cls, path: Path, clock: Callable[[], datetime], anchor: HeadAnchor | None = None
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
        ledger = cls(Store(reader=reader, writer=writer, lock=lock), clock, anchor)
        ledger._prepare()
        return ledger

    @classmethod
    def open_reader(cls, path: Path, clock: Callable[[], datetime]) -> Self:
        """Open an existing ledger without the right to change it, beside a running writer.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            LedgerUnavailable: If there is no readable ledger.
        """
        ledger = cls(Store(reader=connect.reader_engine(path)), clock)
        ledger._recognise()
        return ledger

    @classmethod
    def open_database(
        cls, location: str, clock: Callable[[], datetime], anchor: HeadAnchor | None = None
    ) -> Self:
        """Open the ledger in a PostgreSQL database; other processes may write it too.

        Raises:
            LedgerRestored: If it lacks what `anchor` has seen in it.
            LedgerFromTheFuture: If a newer version wrote it.
            ChainBroken: If anything in it was changed by other means.
            LedgerUnavailable: If the server cannot be reached, or does not sync its commits.
        """
        url = postgres.database_url(location)
        reader, maintenance = postgres.reader_engine(url), postgres.maintenance_engine(url)
        ledger = cls(Store(reader=reader, writer=maintenance), clock, anchor)
        ledger._prepare(postgres.refuse_forgetful_servers)
        ledger.close()
        reader, writer = postgres.reader_engine(url), postgres.writer_engine(url)
        return cls(Store(reader=reader, writer=writer), clock, anchor)

    @classmethod
    def open_database_reader(cls, location: str, clock: Callable[[], datetime]) -> Self:
        """Open the ledger in a PostgreSQL database without the right to change it.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            LedgerUnavailable: If there is no readable ledger.
        """
        url = postgres.database_url(location)
        ledger = cls(Store(reader=postgres.reader_engine(url)), clock)
        ledger._recognise()
        return ledger

    def is_writable(self) -> bool:
        """Return whether the last change was durable, trying an empty one if it was not."""
        if not self._failed:
            return True
        try:
            self._change(rows.touch)
        except LedgerUnavailable:
            return False
        return True

    def take_lease(self, holder: str, seconds: float) -> Lease:
        """Keep others from adopting this holder's runs while it beats; PostgreSQL only."""
        return Lease(self._store, holder, seconds)

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

        return self._change(work, registration.name)

    def decide(self, decision: kinds.Decision) -> DatasetState:
        """See `Ledger`."""

        def work(connection: Connection) -> DatasetState:
            book = Book(datasets=rows.load_datasets(connection, decision.dataset))
            book.asked = rows.load_asked(connection, decision.dataset)
            self._append(connection, book, decision)
            state = book.dataset(decision.dataset)
            rows.update_dataset(connection, state)
            return state

        return self._change(work, decision.dataset)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """See `Ledger`."""
        happening = kinds.RunOpened(opening=checked_opening(opening), holder=holder)

        def work(connection: Connection) -> RunState:
            book = rows.load_account(connection, opening.dataset)
            book.runs.update(rows.load_runs(connection, run_id=opening.run_id))
            self._append(connection, book, happening)
            state = book.run(opening.run_id)
            rows.insert_run(connection, state)
            return state

        return self._change(work, opening.dataset)

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
            book = Book(runs=rows.load_runs(connection, run_id=event.run_id))
            before = book.run(event.run_id)
            if is_repeated_mark(before, event):
                return before
            book.datasets = rows.load_datasets(connection, before.dataset)
            if book.dataset(before.dataset).is_restricted(before.analyst):
                book = rows.load_account(connection, before.dataset)
                book.runs[event.run_id] = before
            check_kept(book, before, event)
            if isinstance(event, kinds.RunAdopted):
                refuse_while_alive(connection, before.holder, event.holder)
            self._append(connection, book, event)
            state = book.run(event.run_id)
            rows.update_run(connection, state)
            if payload is not None:
                rows.insert_payload(connection, event.run_id, payload)
            return state

        state = self._change(work)
        if not state.is_open:
            self._keep(state.dataset)
        return state

    def _change(self, work: Callable[[Connection], T], dataset: str | None = None) -> T:
        """Run one change, and let the anchor see it before anybody relies on it.

        Raises:
            LedgerUnavailable: If either may not be durable.
        """
        try:
            result = self._store.change(work)
            self._keep(dataset)
        except LedgerUnavailable as error:
            self._failed = not isinstance(error, HolderLost | HolderAlive)
            raise
        self._failed = False
        return result

    def _keep(self, dataset: str | None) -> None:
        """Note the head elsewhere, with what is reserved of each data set whose total changed.

        Entries that were not noted one by one are another process's or another thread's, and may
        have reserved anything: a head without them would promise less than was given out.
        """
        if self._anchor is None:
            return
        with self._anchor.writing() as note, self._store.reading() as connection:
            seen, note.head = note.head[0], rows.load_head(connection)
            changed = set() if dataset is None else {dataset}
            if note.head[0] > seen + 1:
                changed = set(rows.load_datasets(connection))
            for name in changed:
                note.see(rows.load_account(connection, name), name)

    def _append(self, connection: Connection, book: Book, happening: kinds.Happening) -> None:
        at = self._clock().isoformat()
        book.apply(happening, at)
        kind, body = kinds.encode(happening)
        rows.insert_entry(connection, Entry.following(rows.load_head(connection), at, kind, body))

    def _prepare(self, check: Callable[[Connection], None] | None = None) -> None:
        """Make the tables if there are none and verify everything, or close."""

        def work(connection: Connection) -> None:
            if check is not None:
                check(connection)
            connect.check_anchor(connection, self._anchor)  # before an upgrade changes anything
            connect.create_tables(connection)

        try:
            self._store.change(work)
            self.verify()
            self._meet_anchor()
        except BaseException:
            self.close()
            raise

    def _meet_anchor(self) -> None:
        """Refuse a ledger that lacks what the anchor has seen; let a new anchor see all of it."""
        with self._store.reading() as connection:
            connect.check_anchor(connection, self._anchor)
        for state in self.datasets():
            self._keep(state.registration.name)
        self._keep(None)

    def _recognise(self) -> None:
        """Check the version, or close."""
        try:
            with self._store.reading() as connection:
                connect.refuse_other_versions(connection)
        except BaseException:
            self.close()
            raise
