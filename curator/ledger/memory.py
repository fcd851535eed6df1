"""A ledger that forgets at exit: for tests and for trying things out, never for private data."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import final

from curator.accounting.cost import Cost
from curator.budget_numbers import BudgetNumbers
from curator.ledger import entries as kinds
from curator.ledger.book import Book, replay
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.records import (
    Account,
    DatasetRegistration,
    DatasetState,
    RunOpening,
    RunState,
    Statement,
)
from curator.ledger.shared import (
    check_kept,
    check_shown,
    checked_opening,
    checked_payload,
    is_repeated_mark,
    statement_of,
)


@final
class MemoryLedger:
    """The ledger's promise without a disk."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """Start empty; `clock` returns the present time in UTC."""
        self._clock = clock
        self._lock = threading.RLock()
        self._book = Book()
        self._entries: list[Entry] = []
        self._payloads: dict[str, bytes] = {}

    def register_dataset(
        self, registration: DatasetRegistration, favourite: float | None = None
    ) -> DatasetState:
        """See `Ledger`."""
        with self._lock:
            self._write(kinds.DatasetRegistered.favouring(registration, favourite))
            return self._book.dataset(registration.name)

    def decide(self, decision: kinds.Decision) -> DatasetState:
        """See `Ledger`."""
        with self._lock:
            self._write(decision)
            return self._book.dataset(decision.dataset)

    def dataset(self, name: str) -> DatasetState:
        """See `Ledger`."""
        with self._lock:
            return self._book.dataset(name)

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._lock:
            return tuple(self._book.datasets[name] for name in sorted(self._book.datasets))

    def account(self, name: str) -> Account:
        """See `Ledger`."""
        with self._lock:
            return self._book.account(name)

    def share(self, name: str, analyst: str) -> Account | None:
        """See `Ledger`."""
        with self._lock:
            return self._book.share(name, analyst)

    def statement(self, name: str) -> Statement:
        """See `Ledger`."""
        with self._lock:
            return statement_of(self._book, name)

    def would_reserve(self, dataset: str, cost: Cost) -> BudgetNumbers:
        """See `Ledger`."""
        return self.account(dataset).numbers(cost)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        """See `Ledger`."""
        happening = kinds.RunOpened(opening=checked_opening(opening), holder=holder)
        with self._lock:
            self._write(happening)
            return self._book.run(opening.run_id)

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
        with self._lock:
            state = self._happen(
                kinds.SetupStored(run_id=run_id, holder=holder, epoch=epoch, digest=digest)
            )
            self._payloads[run_id] = bytes(payload)
            return state

    def setup_payload(self, run_id: str) -> bytes | None:
        """See `Ledger`."""
        with self._lock:
            return checked_payload(self._book.run(run_id), self._payloads.get(run_id))

    def close_run(self, run_id: str, holder: str, epoch: int, used: int, reason: str) -> RunState:
        """See `Ledger`."""
        return self._happen(
            kinds.RunClosed(run_id=run_id, holder=holder, epoch=epoch, used=used, reason=reason)
        )

    def run(self, run_id: str) -> RunState:
        """See `Ledger`."""
        with self._lock:
            return self._book.run(run_id)

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._lock:
            return tuple(
                run
                for run in self._book.runs.values()
                if dataset in {None, run.dataset} and analyst in {None, run.analyst}
            )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """See `Ledger`."""
        with self._lock:
            return iter(self._entries[max(0, after) :])

    def head(self) -> tuple[int, str]:
        """See `Ledger`."""
        with self._lock:
            last = self._entries[-1] if self._entries else None
            return (last.seq, last.digest) if last else (0, GENESIS)

    def verify(self) -> None:
        """See `Ledger`."""
        with self._lock:
            book, _ = replay(self._entries)
            check_shown(book, self._book)
            for run in self._book.runs.values():
                checked_payload(run, self._payloads.get(run.run_id))

    def _happen(self, event: kinds.RunEvent) -> RunState:
        with self._lock:
            before = self._book.run(event.run_id)
            if is_repeated_mark(before, event):
                return before
            check_kept(self._book, before, event)
            self._write(event)
            return self._book.run(event.run_id)

    def _write(self, happening: kinds.Happening) -> None:
        at = self._clock().isoformat()
        self._book.apply(happening, at)
        kind, body = kinds.encode(happening)
        self._entries.append(Entry.following(self.head(), at, kind, body))
