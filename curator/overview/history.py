"""What was spent and reserved of each data set over time, and how fast runs go, off the entries.

The entries are applied once, as they come: the first ones while the start replays them, the rest
to the book that the replay left; between two questions only the new ones are read. A data set keeps
at most a few hundred points: when there are more, every second one is dropped, so a long history is
coarser and never longer.

The order is that of the entries. Their times are hints: a clock that was set writes them out of
order, which is told and not mended.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Self, final

from curator.ledger.book import Book, Place, account_of
from curator.ledger.chain import APART, Entry
from curator.ledger.entries import decode
from curator.ledger.ledger import DatasetState, Ledger, RunState
from curator.ledger.totals import Totals

KEPT_POINTS: Final = 240
RATE_SPAN: Final = timedelta(minutes=10)
_KEPT_MARKS: Final = 64
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Point:
    """Epsilon spent and reserved of one data set after an entry."""

    at: datetime
    spent: float
    reserved: float


@dataclass(slots=True)
class _Course:
    """The points of one data set; an entry waits until its stretch of time has passed."""

    points: list[Point] = field(default_factory=list)
    seconds: float = 1.0
    waiting: tuple[datetime, DatasetState, Totals] | None = None

    def settle(self, now: datetime | None) -> None:
        """Make a point of the waiting entry if its stretch has passed, or anyway at the end."""
        if self.waiting is None:
            return
        at, state, totals = self.waiting
        last = self.points[-1].at if self.points else None
        if now is None or last is None or abs((now - last).total_seconds()) > self.seconds:
            account = account_of(state, totals)
            spent = account.rule.spent_epsilon(account.spent)
            self.add(Point(at, spent, account.rule.spent_epsilon(account.reserved)))

    def add(self, point: Point) -> None:
        self.points.append(point)
        self.waiting = None
        if len(self.points) > 2 * KEPT_POINTS:
            self.points = [*self.points[:-1:2], self.points[-1]]
            self.seconds *= 2

    def to_json(self) -> dict[str, object]:
        points = [[p.at.isoformat(), p.spent, p.reserved] for p in self.points]
        return {"points": points, "seconds": self.seconds}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        points = [Point(datetime.fromisoformat(at), s, r) for at, s, r in value["points"]]
        return cls(points, float(value["seconds"]))


@final
class History:
    """Reads the ledger's entries as they come; safe to ask from many threads."""

    def __init__(self) -> None:
        """Start before the first entry; nothing is read yet."""
        self._lock = threading.Lock()
        self._seq = 0
        self._book = Book()
        self._courses: dict[str, _Course] = {}
        self._marks: dict[str, deque[tuple[datetime, int]]] = {}
        self._is_stopped = False
        self._latest: datetime | None = None
        self._has_ordered_times = True

    @property
    def has_ordered_times(self) -> bool:
        """Whether no entry that was read is much earlier, by its time, than the one before it."""
        with self._lock:
            return self._has_ordered_times

    def see(self, entry: Entry, state: DatasetState | RunState, book: Book) -> None:
        """Take over an entry that was replayed while the ledger was opened.

        Args:
            entry: The next one.
            state: What it changed.
            book: After it; the last one is gone on with.
        """
        with self._lock:
            self._book = book
            self._note(entry, state)

    def kept(self) -> dict[str, object]:
        """Return all that was read, as plain values."""
        with self._lock:
            for course in self._courses.values():
                course.settle(None)
            return {
                "courses": {name: course.to_json() for name, course in self._courses.items()},
                "marks": {
                    run_id: [[at.isoformat(), used] for at, used in marks]
                    for run_id, marks in self._marks.items()
                },
                "latest": self._latest and self._latest.isoformat(),
                "has_ordered_times": self._has_ordered_times,
            }

    def go_on(self, kept: dict[str, Any], place: Place) -> None:
        """Start with what was kept after an entry.

        Args:
            kept: By `kept`; nothing for the first entry.
            place: After that entry.

        Raises:
            ValueError: If it cannot be read.
        """
        with self._lock:
            self._seq, self._book = place.head[0], place.book
            self._courses = {
                name: _Course.from_json(value) for name, value in kept.get("courses", {}).items()
            }
            self._marks = {
                run_id: deque(
                    ((datetime.fromisoformat(at), int(used)) for at, used in marks), _KEPT_MARKS
                )
                for run_id, marks in kept.get("marks", {}).items()
            }
            latest = kept.get("latest")
            self._latest = None if latest is None else datetime.fromisoformat(latest)
            self._has_ordered_times = bool(kept.get("has_ordered_times", True))

    def read(self, ledger: Ledger) -> bool:
        """Read what is new.

        Returns:
            Whether all of it is known; a newer curator may have written what this one cannot read.
        """
        with self._lock:
            if not self._is_stopped:
                try:
                    self._read(ledger)
                except ValueError:
                    self._is_stopped = True
                    _logger.warning("the ledger has entries that this version cannot show")
            return not self._is_stopped

    def points(self, dataset: str) -> tuple[Point, ...]:
        """Return what was read of one data set, in the order of the ledger."""
        with self._lock:
            course = self._courses.get(dataset)
            return () if course is None else tuple(course.points)

    def steps_per_second(self, run_id: str, now: datetime) -> float | None:
        """Return how fast an open run was charged lately, None if that cannot be said.

        Args:
            run_id: Which run.
            now: The present in UTC.
        """
        with self._lock:
            marks = _lately(self._marks.get(run_id, ()), now)
        if len(marks) < 2:
            return None
        seconds = (marks[-1][0] - marks[0][0]).total_seconds()
        steps = marks[-1][1] - marks[0][1]
        return steps / seconds if seconds > 0 and steps > 0 else None

    def _read(self, ledger: Ledger) -> None:
        for entry in ledger.entries(self._seq):
            state = self._book.apply(decode(entry.kind, entry.body), entry.at)
            self._book.closed.clear()
            self._note(entry, state)
        for course in self._courses.values():
            course.settle(None)

    def _note(self, entry: Entry, state: DatasetState | RunState) -> None:
        """Keep what an entry says that was applied; its point waits until more is known."""
        self._seq, at = entry.seq, datetime.fromisoformat(entry.at)
        self._has_ordered_times &= self._latest is None or at >= self._latest - APART
        self._latest = at
        if not isinstance(state, RunState):
            name = state.registration.name
        else:
            name = state.dataset
            marks = self._marks.pop(state.run_id, None) or deque(maxlen=_KEPT_MARKS)
            if state.is_open:
                if marks and marks[-1][1] > state.used:  # what was relinquished was never used
                    kept = [(since, min(used, state.used)) for since, used in marks]
                    marks = deque(kept, maxlen=_KEPT_MARKS)
                marks.append((at, state.used))
                self._marks[state.run_id] = marks
        course = self._courses.setdefault(name, _Course())
        course.settle(at)
        course.waiting = at, self._book.dataset(name), self._book.total(name)


def _lately(marks: Sequence[tuple[datetime, int]], now: datetime) -> list[tuple[datetime, int]]:
    """Return the last marks of the span, as far back as their times are in order."""
    found: list[tuple[datetime, int]] = []
    until = now + RATE_SPAN  # of a curator whose clock is ahead of this one's
    for mark in reversed(marks):
        if not now - RATE_SPAN <= mark[0] <= until:
            break
        found.insert(0, mark)
        until = mark[0]
    return found
