"""A chain of SHA-256 digests over canonical JSON: an entry cannot change without all later ones.

The times of entries are hints by a clock that people can set, while their order is the truth.
Nothing is decided by a time, so one that jumps is written as it is told. Who reads the entries
later should know of it, so a jump is said once, in the log, with both times.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from json.encoder import encode_basestring_ascii as _text
from typing import Final, NamedTuple, final

_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

GENESIS: Final = hashlib.sha256(b"weir ledger, version 1").hexdigest()
"""What the first entry names as its previous digest."""


def canonical_json(value: Mapping[str, object]) -> str:
    """Return the one text of `value`: sorted keys, no spaces, ASCII, no NaN or infinity.

    Raises:
        ValueError: If a number is not finite.
    """
    return _ENCODER.encode(value)


class Entry(NamedTuple):
    """One line of the ledger; `body` is canonical JSON and `digest` covers everything else."""

    seq: int
    at: str
    kind: str
    body: str
    previous: str
    digest: str

    @classmethod
    def following(cls, head: tuple[int, str], at: str, kind: str, body: str) -> Entry:
        """Return the entry that comes after `head`, sealed."""
        seq, previous = head[0] + 1, head[1]
        digest = _digest(seq, at, kind, body, previous)
        return cls(seq=seq, at=at, kind=kind, body=body, previous=previous, digest=digest)

    def follows(self, head: tuple[int, str]) -> bool:
        """Whether this entry is unchanged and comes right after `head`."""
        expected = _digest(self.seq, self.at, self.kind, self.body, self.previous)
        in_place = self.seq == head[0] + 1 and self.previous == head[1]
        return in_place and self.digest == expected


def _digest(seq: int, at: str, kind: str, body: str, previous: str) -> str:
    """Return the digest of the entry's canonical JSON, which is written out for speed."""
    texts = (_text(part) for part in (at, body, kind, previous))
    text = '{{"at":{},"body":{},"kind":{},"previous":{},"seq":{:d}}}'.format(*texts, seq)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


APART: Final = timedelta(seconds=1)
"""How much the clocks of several curators may differ without a word."""

_LEAP: Final = timedelta(minutes=10)  # beyond what another clock, which nobody sets, has counted
_IDLE: Final = timedelta(days=366)  # how long a ledger may have had no entry before this start

_logger = logging.getLogger(__name__)


@final
class EntryTimes:
    """Tells the time of the next entry."""

    def __init__(
        self, clock: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the clock in UTC, and one that never jumps."""
        self._clock = clock
        self._monotonic = monotonic
        self._last: datetime | None = None
        self._until: datetime | None = None  # a later time is no wonder
        self._ticks = 0.0

    def begin(self, last: str | None) -> None:
        """Compare the clock with the last entry of a ledger that was opened, if it has one."""
        if last is not None:
            self._last = datetime.fromisoformat(last)
            self._until = self._last + _IDLE
            self._ticks = self._monotonic()
            self.now()

    def now(self) -> datetime:
        """Return the time; say it in the log if the clock has jumped since the last time."""
        now, ticks = self._clock(), self._monotonic()
        if self._last is not None and self._until is not None:
            passed = timedelta(seconds=ticks - self._ticks)
            if now < self._last - APART:
                self._say("back", now)
            elif now > self._until + passed:
                self._say("forwards", now)
        self._last, self._until, self._ticks = now, now + _LEAP, ticks
        return now

    def _say(self, where: str, now: datetime) -> None:
        _logger.warning(
            "the clock has jumped %s, from %s to %s: times of entries are hints, their order holds",
            where,
            self._last,
            now,
        )
