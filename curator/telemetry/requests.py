"""What is kept of a finished request: a log line, counts, and a span where tracing is on.

All three are made here, of the same fields, so their request ids agree with each other and with
the error that the caller was given.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from curator.errors import LedgerUnavailable
from curator.telemetry import names
from curator.telemetry.counts import Counts, Sample
from curator.telemetry.log import log_request

_MOST_CALLERS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRequest:
    """One call; every field is from a table of the curator or measured by it."""

    request_id: str  # also sent to the caller with an error
    method: str  # by the shell's table, so there are only so many
    caller: str  # authenticated, or empty
    outcome: str  # OK, the reason of an error, or HTTP's number
    seconds: float  # only its bucket is told
    reason: str = ""  # of an error, empty for none


Trace = Callable[[FinishedRequest], None]


@final
class Telemetry:
    """Counts what this process has served since it started."""

    def __init__(self, trace: Trace | None = None) -> None:
        """Start at nothing; `trace` is given every finished request."""
        self._trace = trace
        self._counts = Counts()
        self._lock = threading.Lock()
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._counts.start(names.LEDGER_FAILURES)

    def finished(self, logger: logging.Logger, request: FinishedRequest) -> None:
        """Log, count and trace one finished call."""
        log_request(
            logger,
            request_id=request.request_id,
            method=request.method,
            caller=request.caller,
            outcome=request.outcome,
            seconds=request.seconds,
        )
        self._counts.add(names.REQUESTS, method=request.method, outcome=request.outcome)
        self._counts.observe(names.REQUEST_SECONDS, request.seconds, method=request.method)
        if request.reason:
            self._refused(request)
        if self._trace is not None:
            self._trace(request)

    def step_answered(self, dataset: str) -> None:
        """Count one answer that was handed over, whatever is in it."""
        self._counts.add(names.STEPS_ANSWERED, dataset=dataset)

    def samples(self) -> tuple[Sample, ...]:
        """Return what was counted, for the metrics."""
        return self._counts.samples()

    def refusals(self, caller: str | None = None) -> tuple[tuple[str, str, int], ...]:
        """Return (caller, reason, how often) since the start, by caller and reason.

        Args:
            caller: Only this one's; None for everybody's, strangers under an empty name.
        """
        with self._lock:
            found = sorted(self._refusals.items())
        return tuple((who, reason, n) for (who, reason), n in found if caller in {None, who})

    def _refused(self, request: FinishedRequest) -> None:
        self._counts.add(names.REFUSALS, reason=request.reason)
        if request.reason == LedgerUnavailable.reason:
            self._counts.add(names.LEDGER_FAILURES)
        with self._lock:
            key = (request.caller, request.reason)
            if key in self._refusals or len(self._refusals) < _MOST_CALLERS:
                self._refusals[key] += 1
