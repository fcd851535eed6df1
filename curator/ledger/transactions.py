"""Where a ledger's rows live: one change at a time, read snapshots, and no answer after a failure.

A change runs inside one transaction and is durable when `change` returns. Any error of the
database or the disk is `LedgerUnavailable`, and then nothing may be computed; the next call
starts again from what the database holds.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar, final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from curator.errors import LedgerUnavailable
from curator.ledger.file_lock import WriterLock

T = TypeVar("T")

_ROLLED_BACK: Final = frozenset({"40001", "40P01"})
"""SQLSTATE of a serialization failure and of a deadlock: for certain, nothing was written."""
_ATTEMPTS: Final = 5


@final
class Store:
    """The connections of one ledger; without a writer every change is `LedgerUnavailable`."""

    def __init__(
        self, *, reader: Engine, writer: Engine | None = None, lock: WriterLock | None = None
    ) -> None:
        """Keep the engines, and the lock that goes with the right to write a file."""
        self._reader = reader
        self._writer = writer
        self._lock = lock
        self._one_writer = threading.Lock()

    def change(self, work: Callable[[Connection], T]) -> T:
        """Run one change; it is durable when this returns.

        `work` runs again, on what is there by then, when the database rolled it back because of
        another process; it must have no effect of its own.

        Raises:
            LedgerUnavailable: If there is no writer, or the change may not have happened.
        """
        with self._one_writer:
            for _ in range(_ATTEMPTS - 1):
                try:
                    return self._attempt(work)
                except LedgerUnavailable as error:
                    if not _was_rolled_back(error.__cause__):
                        raise
            return self._attempt(work)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read one snapshot."""
        with _failing_closed(self._reader), self._reader.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection and give the lock back; nothing is written after that."""
        with self._one_writer:
            if self._writer is not None:
                self._writer.dispose()
            self._writer = None
            self._reader.dispose()
            if self._lock is not None:
                self._lock.release()

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        """Run one transaction.

        Raises:
            LedgerUnavailable: If it failed.
        """
        if self._writer is None:
            msg = "this ledger was closed, or opened for reading"
            raise LedgerUnavailable(msg)
        with _failing_closed(self._writer), self._writer.begin() as connection:
            return work(connection)


def _was_rolled_back(cause: BaseException | None) -> bool:
    state = getattr(cause.orig, "sqlstate", None) if isinstance(cause, DBAPIError) else None
    return state in _ROLLED_BACK


@contextmanager
def _failing_closed(engine: Engine) -> Iterator[None]:
    """Turn every error of the database into `LedgerUnavailable` and forget its connections.

    Raises:
        LedgerUnavailable: If the database or the disk failed.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        engine.dispose()
        msg = "the ledger's database failed"
        raise LedgerUnavailable(msg) from error
