"""Counters of this process, by name and labels of the allow-list; the number of labels is bounded.

Labels come from tables of the curator. Should one ever come from outside, it can neither grow the
memory nor carry a text: what is odd, or one too many, is counted as "other".
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from curator.telemetry.log import duration_bound
from curator.telemetry.names import listed

Labels = tuple[tuple[str, str], ...]
"""Names and values, in order of name."""

BUCKET: Final = "le"
"""Prometheus's own label: the upper bound of a histogram's bucket."""

OTHER: Final = "other"
MOST_SERIES: Final = 512
_LONGEST: Final = 128
_VALUE = re.compile(rf"[A-Za-z0-9/._{{}} <>=-]{{1,{_LONGEST}}}")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of one metric."""

    name: str
    value: float
    labels: Labels = ()


def sample(name: str, value: float, **labels: str) -> Sample:
    """Return a number that may leave.

    Args:
        name: On the allow-list.
        value: A public fact.
        labels: Exactly those of the list.
    """
    listed(name, tuple(labels))
    return Sample(name, value, _bounded(labels))


@final
class Counts:
    """Numbers that only rise."""

    def __init__(self) -> None:
        """Start at nothing."""
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}

    def add(self, name: str, **labels: str) -> None:
        """Count one.

        Args:
            name: On the allow-list.
            labels: Exactly those of the list.
        """
        given = tuple(labels.items())
        short = all(len(value) <= _LONGEST for value in labels.values())
        self._add(name, _checked(name, given) if short else _checked.__wrapped__(name, given))

    def start(self, name: str) -> None:
        """Tell a metric without labels before anything is counted, so that its rise is seen."""
        listed(name, ())
        with self._lock:
            self._values.setdefault(name, {}).setdefault((), 0)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count one duration in its bucket, and keep no more of it.

        Args:
            name: Of a histogram on the allow-list.
            seconds: How long something took.
            labels: Exactly those of the list.
        """
        listed(name, tuple(labels))
        bound = duration_bound(seconds)
        self._add(name, (*_bounded(labels), (BUCKET, repr(bound))))

    def _add(self, name: str, key: Labels) -> None:
        with self._lock:
            series = self._values.setdefault(name, {})
            if key not in series and len(series) >= MOST_SERIES:
                key = tuple((label, OTHER if label != BUCKET else value) for label, value in key)
            series[key] = series.get(key, 0) + 1

    def samples(self) -> tuple[Sample, ...]:
        """Return every number, in a fixed order."""
        with self._lock:
            return tuple(
                Sample(name, value, labels)
                for name, series in sorted(self._values.items())
                for labels, value in sorted(series.items())
            )


@functools.lru_cache(MOST_SERIES)
def _checked(name: str, labels: Labels) -> Labels:
    """Return labels in order and bounded, if they are on the allow-list."""
    listed(name, tuple(label for label, _ in labels))
    return _bounded(dict(labels))


def _bounded(labels: Mapping[str, str]) -> Labels:
    return tuple(
        (label, value if _VALUE.fullmatch(value) else OTHER)
        for label, value in sorted(labels.items())
    )
