"""A ledger that forgets at exit: for tests and for trying things out, never for private data."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import final

from curator.accounting.cost import Cost
from curator.ledger import entries as kinds
from curator.ledger.book import Book, Place
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.rebuild_check import check_shown
from curator.ledger.records import (
    Account,
    DatasetRegistration,
    DatasetState,
    RunOpening,
    RunState,
    RunStatus,
    Spend,
    Statement,
)
from curator.ledger.shared import (
    check_kept,
    checked_opening,
    checked_payload,
    is_repeated_mark,
    spends_of,
    statement_of,
)
from curator.ledger.totals import EVERYBODY, Totals
from curator.privacy.budget import BudgetNumbers


@final
class MemoryLedger:
    """The ledger's promise without a disk."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """Start empty; `clock` returns the present time in UTC."""
        self._clock = clock
        self._lock = threading.RLock()
        self._book = Book()
        self._entries: list[Entry] = []
        self._ids: list[str] = []  # of runs, in the order in which they were opened
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

    def spends(self, name: str) -> tuple[Spend, ...]:
        """See `Ledger`."""
        with self._lock:
            return spends_of(self._book, name)

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
            self._ids.append(opening.run_id)
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

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> Iterator[RunState]:
        """See `Ledger`."""
        with self._lock:
            runs = [self._book.run(run_id) for run_id in self._ids]
        return (
            run for run in runs if dataset in {None, run.dataset} and analyst in {None, run.analyst}
        )

    def open_runs(
        self, dataset: str | None = None, analyst: str | None = None
    ) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._lock:
            return tuple(
                run
                for run in self._book.runs.values()
                if dataset in {None, run.dataset} and analyst in {None, run.analyst}
            )

    def latest_runs(
        self,
        at_most: int,
        analyst: str | None = None,
        status: RunStatus | None = None,
        before: str | None = None,
    ) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._lock:
            end = len(self._ids) if before is None else self._ids.index(before)
            runs = (self._book.run(run_id) for run_id in reversed(self._ids[:end]))
            fitting = (
                run
                for run in runs
                if analyst in {None, run.analyst} and status in {None, run.status}
            )
            return tuple(islice(fitting, at_most))

    def num_closed(self, analyst: str | None = None) -> int:
        """See `Ledger`."""
        whose = EVERYBODY if analyst is None else analyst
        with self._lock:
            return sum(
                self._book.totals.get((name, whose), Totals()).num_closed
                for name in self._book.datasets
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
            shown = replace(self._book, runs={})
            check_shown(self._entries, shown, self.runs(), Place())
            for run in self.runs():
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
