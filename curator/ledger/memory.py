"""A ledger that forgets at exit: for tests and for trying things out, never for private data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import final, overload

from curator.ledger import entries as events
from curator.ledger.book import Book, Place
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.datasets_and_runs import DatasetState, RunState, RunStatus
from curator.ledger.ledger import Ledger
from curator.ledger.shared import check_kept, checked_payload, is_repeated_mark
from curator.ledger.totals import EVERYBODY, Totals
from curator.ledger.verify import check_shown


@final
class MemoryLedger(Ledger):
    """The ledger's promise without a disk."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        """Start empty; `clock` returns the present time in UTC."""
        self._clock = clock
        self._lock = threading.RLock()
        self._book = Book()
        self._entries: list[Entry] = []
        self._ids: list[str] = []  # of runs, in the order in which they were opened
        self._payloads: dict[str, bytes] = {}

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
        with self._lock:
            if isinstance(event, events.RunEvent):
                before = self._book.run(event.run_id)
                if is_repeated_mark(before, event):
                    return before
                check_kept(self._book, before, event)
            at = self._clock().isoformat()
            state = self._book.apply(event, at)
            self._entries.append(Entry.following(self.head(), at, *events.encode(event)))
            if isinstance(event, events.RunOpened):
                self._ids.append(event.opening.run_id)
            if payload is not None and isinstance(event, events.SetupStored):
                self._payloads[event.run_id] = bytes(payload)
            return state

    def _read(
        self, dataset: str, analysts: Collection[str] | None = (), *, with_runs: bool = False
    ) -> Book:
        """See `Ledger`."""
        with self._lock:
            return Book(
                datasets=dict(self._book.datasets),
                runs={run.run_id: run for run in self.open_runs(dataset)} if with_runs else {},
                totals={
                    (name, whose): totals
                    for (name, whose), totals in self._book.totals.items()
                    if name == dataset and (analysts is None or whose in {EVERYBODY, *analysts})
                },
            )

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._lock:
            return tuple(self._book.datasets[name] for name in sorted(self._book.datasets))

    def setup_payload(self, run_id: str) -> bytes | None:
        """See `Ledger`."""
        with self._lock:
            return checked_payload(self._book.run(run_id), self._payloads.get(run_id))

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
