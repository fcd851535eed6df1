"""The durable ledger: one synced transaction for each change, one writer, and no state of its own.

Every change loads what it is about, lets `Book` decide, appends the entry and shows the result,
inside one transaction. Any error of the database or the disk is `LedgerUnavailable`, and then
nothing may be computed; the next call starts again from what the disk holds.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self, final

from sqlalchemy import Connection, Engine

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.errors import BudgetNumbers, LedgerUnavailable
from curator.ledger import entries as kinds
from curator.ledger import rows
from curator.ledger.book import Book, replay
from curator.ledger.chain import Entry
from curator.ledger.connect import (
    create_tables,
    failing_closed,
    make_private_file,
    reader_engine,
    refuse_other_versions,
    writer_engine,
)
from curator.ledger.lock import WriterLock
from curator.ledger.records import (
    Account,
    ChainBroken,
    DatasetRegistration,
    DatasetState,
    RunOpening,
    RunState,
    Statement,
)
from curator.ledger.shared import (
    check_shown,
    checked_opening,
    checked_payload,
    is_repeated_mark,
    statement_of,
)

_PAGE = 1000


@final
class SqlLedger:
    """The ledger's promise on SQLite; open it with `open_writer` or `open_reader`."""

    def __init__(
        self,
        *,
        reader: Engine,
        writer: Engine | None,
        lock: WriterLock | None,
        clock: Callable[[], datetime],
    ) -> None:
        """Keep the engines; without a writer every change is `LedgerUnavailable`."""
        self._reader = reader
        self._writer = writer
        self._lock = lock
        self._clock = clock
        self._one_writer = threading.Lock()

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
            make_private_file(path)
        except LedgerUnavailable:
            lock.release()
            raise
        ledger = cls(reader=reader_engine(path), writer=writer_engine(path), lock=lock, clock=clock)
        try:
            with ledger._transaction() as connection:
                create_tables(connection)
            ledger.verify()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open_reader(cls, path: Path, clock: Callable[[], datetime]) -> Self:
        """Open an existing ledger without the right to change it, beside a running writer.

        Raises:
            LedgerFromTheFuture: If a newer version wrote it.
            LedgerUnavailable: If there is no readable ledger.
        """
        ledger = cls(reader=reader_engine(path), writer=None, lock=None, clock=clock)
        try:
            with ledger._reading() as connection:
                refuse_other_versions(connection)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def close(self) -> None:
        """Close every connection and give the lock back; nothing is written after that."""
        with self._one_writer:
            if self._writer is not None:
                self._writer.dispose()
            self._writer = None
            self._reader.dispose()
            if self._lock is not None:
                self._lock.release()

    def register_dataset(self, registration: DatasetRegistration) -> DatasetState:
        """See `Ledger`."""
        rule = BudgetRule.register(registration.budget)
        happening = kinds.DatasetRegistered(registration=registration, rule=rule)
        with self._transaction() as connection:
            book = Book(datasets=rows.load_datasets(connection))
            self._append(connection, book, happening)
            state = book.dataset(registration.name)
            rows.insert_dataset(connection, state)
            return state

    def dataset(self, name: str) -> DatasetState:
        """See `Ledger`."""
        with self._reading() as connection:
            return Book(datasets=rows.load_datasets(connection, name)).dataset(name)

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._reading() as connection:
            found = rows.load_datasets(connection)
        return tuple(found[name] for name in sorted(found))

    def account(self, name: str) -> Account:
        """See `Ledger`."""
        with self._reading() as connection:
            book = rows.load_book(connection, name)
        return book.account(name)

    def statement(self, name: str) -> Statement:
        """See `Ledger`."""
        with self._reading() as connection:
            book = rows.load_book(connection, name)
        return statement_of(book, name)

    def would_reserve(self, dataset: str, cost: Cost) -> BudgetNumbers:
        """See `Ledger`."""
        return self.account(dataset).numbers(cost)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """See `Ledger`."""
        happening = kinds.RunOpened(opening=checked_opening(opening), holder=holder)
        with self._transaction() as connection:
            book = rows.load_book(connection, opening.dataset)
            book.runs.update(rows.load_runs(connection, run_id=opening.run_id))
            self._append(connection, book, happening)
            state = book.run(opening.run_id)
            rows.insert_run(connection, state)
            return state

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
        with self._reading() as connection:
            run = Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)
            return checked_payload(run, rows.load_payload(connection, run_id))

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.RunClosed(run_id=run_id, holder=holder, epoch=epoch, used=used, reason=reason)
        )

    def run(self, run_id: str) -> RunState:
        """See `Ledger`."""
        with self._reading() as connection:
            return Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._reading() as connection:
            return tuple(rows.load_runs(connection, dataset=dataset, analyst=analyst).values())

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """See `Ledger`; entries appended meanwhile are returned too."""
        while True:
            with self._reading() as connection:
                page = rows.load_entries(connection, after, _PAGE)
            if not page:
                return
            yield from page
            after = page[-1].seq

    def head(self) -> tuple[int, str]:
        """See `Ledger`."""
        with self._reading() as connection:
            return rows.load_head(connection)

    def verify(self) -> None:
        """See `Ledger`.

        Raises:
            ChainBroken: If an entry, a shown row or a stored setup was changed.
        """
        with self._reading() as connection:
            try:
                told, _ = replay(rows.all_entries(connection))
                shown = rows.load_book(connection)
                payloads = {run_id: rows.load_payload(connection, run_id) for run_id in shown.runs}
            except (ValueError, TypeError, KeyError) as error:
                msg = "a row of the ledger cannot be read"
                raise ChainBroken(msg) from error
        check_shown(told, shown)
        for run in told.runs.values():
            checked_payload(run, payloads[run.run_id])

    def _happen(self, event: kinds.RunEvent, payload: bytes | None = None) -> RunState:
        with self._transaction() as connection:
            book = Book(runs=rows.load_runs(connection, run_id=event.run_id))
            before = book.run(event.run_id)
            if is_repeated_mark(before, event):
                return before
            self._append(connection, book, event)
            state = book.run(event.run_id)
            rows.update_run(connection, state)
            if payload is not None:
                rows.insert_payload(connection, event.run_id, payload)
            return state

    def _append(self, connection: Connection, book: Book, happening: kinds.Happening) -> None:
        at = self._clock().isoformat()
        book.apply(happening, at)
        kind, body = kinds.encode(happening)
        rows.insert_entry(connection, Entry.following(rows.load_head(connection), at, kind, body))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Run one change; it is on the disk when this returns.

        Raises:
            LedgerUnavailable: If there is no writer, or the change may not have happened.
        """
        with self._one_writer:
            if self._writer is None:
                msg = "this ledger was closed, or opened for reading"
                raise LedgerUnavailable(msg)
            with failing_closed(self._writer), self._writer.begin() as connection:
                yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with failing_closed(self._reader), self._reader.begin() as connection:
            yield connection
