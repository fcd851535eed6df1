"""What was spent and reserved of each data set over time, and how fast runs go, off the entries.

The entries are applied once, as they come, to a book of this reader's own; between two questions
only the new ones are read. A data set keeps at most a few hundred points: when there are more,
every second one is dropped, so a long history is coarser and never longer.

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
from typing import Final, final

from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.entries import decode
from curator.ledger.entry_times import APART
from curator.ledger.ledger import Ledger, RunState

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
    waiting: datetime | None = None

    def add(self, point: Point) -> None:
        self.points.append(point)
        self.waiting = None
        if len(self.points) > 2 * KEPT_POINTS:
            self.points = [*self.points[:-1:2], self.points[-1]]
            self.seconds *= 2


@final
class History:
    """Reads the ledger's entries as they come; safe to ask from many threads."""

    def __init__(self, ledger: Ledger) -> None:
        """Start before the first entry; nothing is read yet."""
        self._ledger = ledger
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

    def read(self) -> bool:
        """Read what is new.

        Returns:
            Whether all of it is known; a newer curator may have written what this one cannot read.
        """
        with self._lock:
            if not self._is_stopped:
                try:
                    self._read()
                except ValueError:
                    self._is_stopped = True
                    _logger.warning("the ledger has entries that this version cannot show")
            return not self._is_stopped

    def points(self, dataset: str) -> tuple[Point, ...]:
        """Return what was read of one data set, in the order of the ledger.

        Args:
            dataset: Its name.
        """
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

    def _read(self) -> None:
        for entry in self._ledger.entries(self._seq):
            at = datetime.fromisoformat(entry.at)
            self._settle(at)
            self._apply(entry, at)
            self._has_ordered_times &= self._latest is None or at >= self._latest - APART
            self._latest = at
            self._seq = entry.seq
        self._settle(None)

    def _apply(self, entry: Entry, at: datetime) -> None:
        state = self._book.apply(decode(entry.kind, entry.body), entry.at)
        if not isinstance(state, RunState):
            name = state.registration.name
        else:
            name = state.dataset
            before = self._marks.pop(state.run_id, ())
            if state.is_open:  # what was relinquished was not used before either
                kept = [(since, min(used, state.used)) for since, used in before]
                self._marks[state.run_id] = deque([*kept, (at, state.used)], maxlen=_KEPT_MARKS)
        self._courses.setdefault(name, _Course()).waiting = at

    def _settle(self, now: datetime | None) -> None:
        """Make points of waiting entries whose stretch has passed, or of all at the end."""
        for name, course in self._courses.items():
            since = course.waiting
            if since is None:
                continue
            last = course.points[-1].at if course.points else None
            if now is None or last is None or abs((now - last).total_seconds()) > course.seconds:
                account = self._book.account(name)
                point = Point(
                    at=since,
                    spent=account.rule.spent_epsilon(account.spent),
                    reserved=account.rule.spent_epsilon(account.reserved),
                )
                course.add(point)


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
