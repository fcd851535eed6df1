"""A store whose chain cannot go back unnoticed: what was noted of it must still be in it.

A file may be put back, a database restored, a standby promoted that lagged, all under a running
process. So every transaction that changes anything first looks for the head that was noted last,
and for the newest one that this process knows to be durable, before it writes. Lacking either, it
writes nothing, and neither does any later one: the store is lost until the process starts again.

What is to be noted is gathered inside the transaction, not read back after it: a commit that a
failover loses at once was noted nevertheless, and so it is missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar, final

from sqlalchemy import Connection

from curator.errors import LedgerUnavailable
from curator.ledger import rows
from curator.ledger.anchor import HOW_TO_ACCEPT, Head, HeadAnchor, Note
from curator.ledger.file_lock import FileIdentity
from curator.ledger.problems import LedgerRestored
from curator.ledger.replicas import (
    Settling,
    delete_objections,
    insert_objection,
    load_settled,
    refuse_objections,
)
from curator.ledger.transactions import Store

T = TypeVar("T")

_logger = logging.getLogger(__name__)


def _nothing(_: object) -> None:
    return None


@final
class WatchedStore:
    """A `Store` with the same methods, which knows what its chain had."""

    def __init__(
        self, store: Store, anchor: HeadAnchor | None = None, path: Path | None = None
    ) -> None:
        """Watch a store.

        Args:
            store: The connections.
            anchor: What keeps the head elsewhere; without it only this process's memory does.
            path: Of the file, if it is one: another file in its place is noticed too.
        """
        self._store = store
        self._anchor = anchor
        self._file = None if path is None else FileIdentity(path)
        self._durable = Note()
        self._settling: Settling | None = None
        self._lost: LedgerRestored | None = None

    @property
    def lost(self) -> LedgerRestored | None:
        """Why nothing may be written, released or shown any more, None while all is well."""
        return self._lost

    def settle_within(self, seconds: float) -> None:
        """Append nothing to another server's chain until all replicas have compared theirs.

        Args:
            seconds: Within which every replica that lives has looked at the chain.
        """
        self._settling = Settling(seconds)

    def change(
        self, work: Callable[[Connection], T], changed: Callable[[T], str | None] = _nothing
    ) -> T:
        """Run one change; it is durable and noted when this returns.

        Args:
            work: As for `Store`.
            changed: Returns the data set whose total or state a result has changed, if any.

        Raises:
            LedgerRestored: If the chain lacks what it once had.
            LedgerUnavailable: If the change may not have happened, or is not noted.
        """

        def watched(connection: Connection) -> tuple[T, Note, set[Head]]:
            known = self._known()
            before = self._check(connection, known)
            result = work(connection)
            head = rows.load_head(connection)
            note = Note(head=head, datasets=dict(known.datasets))
            if self._settling is not None:
                self._settling.check(connection, before[0], is_appended=head != before)
            if self._anchor is not None:
                note.servers = load_settled(connection).count
                name = changed(result)
                names = {name} if name else set()
                _see(connection, note, names if before == known.head else None)
            return result, note, {known.head, before}

        result, note, is_known = self._changed(watched)
        if note.head[0] >= self._durable.head[0]:
            self._durable = note
        self._keep(note, is_known)
        return result

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read one snapshot, of a chain that has all that this process knows.

        Raises:
            LedgerRestored: If it has not.
        """
        self._refuse_when_lost()
        durable = self._durable.head  # before the snapshot: it may have more, never less
        with self._store.reading() as connection:
            self._find(connection, durable)
            yield connection

    def look(self) -> None:
        """Look whether the file is what it was; a database is looked at when a lease is renewed.

        Raises:
            LedgerRestored: If it has gone back.
            LedgerUnavailable: If it cannot be read.
        """
        self._refuse_when_lost()
        if self._file is None:
            return
        try:
            self._file.check()
            with self.reading():
                pass
        except LedgerRestored as error:
            self.lose(error)
            raise

    def lose(self, error: LedgerRestored) -> None:
        """Write nothing any more; let the next start know it, and other replicas."""
        if self._lost is not None:
            return
        self._lost = error
        _logger.error("the ledger went back, so this curator stops: %s", error)
        if self._anchor is None:
            return
        with suppress(LedgerUnavailable):
            known = self._anchor.read()
            if known.head[0] < self._durable.head[0]:  # it was put back too
                known = self._durable
                self._anchor.replace(known)
            if self._file is None:
                self._store.change(partial(self._object, known))

    def close(self) -> None:
        """Close every connection; nothing is written after that."""
        self._store.close()

    def _changed(self, work: Callable[[Connection], T]) -> T:
        self._refuse_when_lost()
        try:
            return self._store.change(work)
        except LedgerRestored as error:
            self.lose(error)
            raise

    def _refuse_when_lost(self) -> None:
        if self._lost is not None:
            raise LedgerRestored(str(self._lost))

    def _object(self, known: Note, connection: Connection) -> None:
        """Object, unless it is another replica that misses something."""
        try:
            self._find(connection, known.head)
        except LedgerRestored:
            insert_objection(connection, known)

    def _known(self) -> Note:
        return Note() if self._anchor is None else self._anchor.read()

    def _check(self, connection: Connection, known: Note) -> Head:
        """Check that the chain has all that is known of it.

        Raises:
            LedgerRestored: If it has not, or another replica says so.
        """
        head = rows.load_head(connection)
        for noted in {known.head, self._durable.head} - {head}:
            self._find(connection, noted)
        if self._file is not None:
            self._file.check()
        elif self._anchor is not None:
            refuse_objections(connection)
        return head

    def _find(self, connection: Connection, noted: Head) -> None:
        """Find an entry.

        Raises:
            LedgerRestored: If it is not there.
        """
        seq, digest = noted
        if seq == 0 or rows.load_digest(connection, seq) == digest:
            return
        if self._anchor is not None:
            raise self._anchor.missing(seq)
        msg = f"this ledger lacks entry {seq}, which it had; start again, then {HOW_TO_ACCEPT}"
        raise LedgerRestored(msg)

    def _keep(self, note: Note, is_known: set[Head]) -> None:
        """Note it, unless another thread or process has noted more of the same chain meanwhile.

        Raises:
            LedgerRestored: If what was noted meanwhile is of another chain.
            LedgerUnavailable: If it cannot be noted.
        """
        if self._anchor is None:
            return
        while (found := self._anchor.advance(note, is_known)) not in is_known:
            self._changed(partial(self._find_both, note.head, found))
            is_known.add(found)

    def _find_both(self, one: Head, other: Head, connection: Connection) -> None:
        self._find(connection, one)
        self._find(connection, other)


def accept_chain(connection: Connection) -> Note:
    """Forget all objections, and return the head and all data sets as they are now.

    Args:
        connection: In a transaction, after all loss was counted.
    """
    delete_objections(connection)
    note = Note(head=rows.load_head(connection), servers=load_settled(connection).count)
    _see(connection, note, None)
    return note


def _see(connection: Connection, note: Note, names: set[str] | None) -> None:
    """Take over what is reserved of some data sets, of all where that is None.

    Entries that were not noted one by one are another process's or another thread's, and may
    have reserved anything: a head without them would promise less than was given out.
    """
    for name in rows.load_datasets(connection) if names is None else names:
        note.see(rows.load_account(connection, name), name)
