"""Runs without a step for long are closed, so that what they reserved is not lost to others."""

from __future__ import annotations

import logging
from typing import final

from curator.errors import CuratorError
from curator.ledger.ledger import RunState
from curator.service.close_run import end_run
from curator.service.runs import Runs

_logger = logging.getLogger(__name__)
CLOSED_AS_IDLE = "closed because it was idle"


@final
class IdleRuns:
    """Finds and ends them.

    The idle time of a run that this process does not hold counts from when the ledger was last
    seen to say something new of it, or from when this process started if that was never.
    """

    def __init__(self, runs: Runs, seconds: float) -> None:
        """Take what may be idle for how long."""
        self._runs = runs
        self._seconds = seconds
        self._since = runs.monotonic()  # of what the first look finds
        self._seen: dict[str, tuple[RunState, float]] = {}

    def end(self) -> None:
        """End every open run that was idle for too long; what fails is tried again later."""
        try:
            runs = self._runs.ledger.open_runs()
        except CuratorError:
            _logger.warning("idle runs could not be looked for now")
            return
        self._look(runs)
        for run in runs:
            if self._idle_seconds(run) >= self._seconds:
                self._end_one(run)

    def _look(self, runs: tuple[RunState, ...]) -> None:
        """Remember what the ledger says of each open run, and since when it does."""
        before, self._seen = self._seen, {}
        for run in runs:
            told, since = before.get(run.run_id, (run, self._since))
            self._seen[run.run_id] = (run, since if told == run else self._runs.monotonic())
        self._since = self._runs.monotonic()

    def _end_one(self, run: RunState) -> None:
        try:
            end_run(self._runs, run, CLOSED_AS_IDLE)
        except Exception:  # noqa: BLE001 - one bad run must not keep the others open
            _logger.warning("an idle run could not be closed now")

    def _idle_seconds(self, run: RunState) -> float:
        if self._runs.setups.is_making(run.run_id):
            return 0.0
        live = self._runs.live.get(run.run_id)
        since = self._seen[run.run_id][1] if live is None else live.touched_at
        return self._runs.monotonic() - since
