"""The durable ledger: one synced transaction for each change, and no state of its own.

Every change loads what it is about, lets `Book` decide, appends the entry and shows the result,
inside one transaction of a `Store`: of a SQLite file with one writing process, or of a PostgreSQL
database with several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Self, final

from sqlalchemy import Connection

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.errors import BudgetNumbers, LedgerUnavailable
from curator.ledger import connect, postgres, rows
from curator.ledger import entries as kinds
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.lease import Lease, refuse_while_alive
from curator.ledger.lock import WriterLock
from curator.ledger.records import (
    Account,
    DatasetRegistration,
    DatasetState,
    RunOpening,
    RunState,
    Statement,
)
from curator.ledger.shared import (
    checked_opening,
    checked_payload,
    is_repeated_mark,
    statement_of,
)
from curator.ledger.store import Store
from curator.ledger.verify import verify_rows

_PAGE = 1000


@final
class SqlLedger:
    """The ledger's promise on a database; open it with one of the `open_...` methods."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        """Keep the store; `clock` returns the present time in UTC."""
        self._store = store
        self._clock = clock

    @classmethod
    def open_writer(cls, path: Path, clock: Callable[[], datetime]) -> Self:
        """Open the ledger at `path`, made if there is none, and verify all of it.

        Raises:
            LedgerLocked: If another process writes it.
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
        ledger = cls(Store(reader=reader, writer=writer, lock=lock), clock)
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
    def open_database(cls, location: str, clock: Callable[[], datetime]) -> Self:
        """Open the ledger in a PostgreSQL database; other processes may write it too.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            ChainBroken: If anything in it was changed by other means.
            LedgerUnavailable: If the server cannot be reached, or does not sync its commits.
        """
        url = postgres.database_url(location)
        reader, maintenance = postgres.reader_engine(url), postgres.maintenance_engine(url)
        ledger = cls(Store(reader=reader, writer=maintenance), clock)
        ledger._prepare(postgres.refuse_forgetful_servers)
        ledger.close()
        reader, writer = postgres.reader_engine(url), postgres.writer_engine(url)
        return cls(Store(reader=reader, writer=writer), clock)

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

    def close(self) -> None:
        """Close every connection and give the lock back; nothing is written after that."""
        self._store.close()

    def take_lease(self, holder: str, seconds: float) -> Lease:
        """Keep others from adopting this holder's runs while it beats; PostgreSQL only."""
        return Lease(self._store, holder, seconds)

    def register_dataset(self, registration: DatasetRegistration) -> DatasetState:
        """See `Ledger`."""
        rule = BudgetRule.register(registration.budget)
        happening = kinds.DatasetRegistered(registration=registration, rule=rule)

        def work(connection: Connection) -> DatasetState:
            book = Book(datasets=rows.load_datasets(connection))
            self._append(connection, book, happening)
            state = book.dataset(registration.name)
            rows.insert_dataset(connection, state)
            return state

        return self._store.change(work)

    def dataset(self, name: str) -> DatasetState:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return Book(datasets=rows.load_datasets(connection, name)).dataset(name)

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            found = rows.load_datasets(connection)
        return tuple(found[name] for name in sorted(found))

    def account(self, name: str) -> Account:
        """See `Ledger`."""
        with self._store.reading() as connection:
            book = rows.load_account(connection, name)
        return book.account(name)

    def statement(self, name: str) -> Statement:
        """See `Ledger`."""
        with self._store.reading() as connection:
            book = rows.load_account(connection, name)
        return statement_of(book, name)

    def would_reserve(self, dataset: str, cost: Cost) -> BudgetNumbers:
        """See `Ledger`."""
        return self.account(dataset).numbers(cost)

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

        return self._store.change(work)

    def adopt_run(self, run_id: str, holder: str) -> RunState:
        """See `Ledger`."""
        return self._happen(kinds.RunAdopted(run_id=run_id, holder=holder))

    def advance_mark(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.MarkAdvanced(run_id=run_id, holder=holder, epoch=epoch, used=used)
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

    def setup_payload(self, run_id: str) -> bytes | None:
        """See `Ledger`."""
        with self._store.reading() as connection:
            run = Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)
            return checked_payload(run, rows.load_payload(connection, run_id))

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.RunClosed(run_id=run_id, holder=holder, epoch=epoch, used=used, reason=reason)
        )

    def run(self, run_id: str) -> RunState:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return tuple(rows.load_runs(connection, dataset=dataset, analyst=analyst).values())

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
        with self._store.reading() as connection:
            verify_rows(connection)

    def _happen(self, event: kinds.RunEvent, payload: bytes | None = None) -> RunState:
        def work(connection: Connection) -> RunState:
            book = Book(runs=rows.load_runs(connection, run_id=event.run_id))
            before = book.run(event.run_id)
            if is_repeated_mark(before, event):
                return before
            if isinstance(event, kinds.RunAdopted):
                refuse_while_alive(connection, before.holder, event.holder)
            self._append(connection, book, event)
            state = book.run(event.run_id)
            rows.update_run(connection, state)
            if payload is not None:
                rows.insert_payload(connection, event.run_id, payload)
            return state

        return self._store.change(work)

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
            connect.create_tables(connection)

        try:
            self._store.change(work)
            self.verify()
        except BaseException:
            self.close()
            raise

    def _recognise(self) -> None:
        """Check the version, or close."""
        try:
            with self._store.reading() as connection:
                connect.refuse_other_versions(connection)
        except BaseException:
            self.close()
            raise
