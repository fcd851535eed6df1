"""End runs: as asked, when they were idle for long, and when this process ends in order.

What a run did not use comes back, counted exactly under the lock that claims take. A mark is
charged some steps ahead of what is answered, so a process that only stops leaves up to a block of
each run spent for nothing. One that ends in order knows which steps were begun: it tells the
ledger, and claims none after that, whether the ledger confirms or not.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import final

from curator.errors import CuratorError, RunClosed, Unavailable
from curator.ledger.ledger import RunState
from curator.ledger.problems import HolderLost, LedgerConflict
from curator.service.caller import Caller
from curator.service.find_run import run_of
from curator.service.live_run import LiveRun
from curator.service.runs import Runs

CLOSED_BY_ANALYST = "closed by the analyst"
CLOSED_BY_STEWARD = "closed by the steward"


def close_run(runs: Runs, caller: Caller, run_id: str) -> RunState:
    """Close a run; closing a closed run changes nothing.

    Returns:
        The ledger's record after closing.

    Raises:
        UnknownRun: If the run is not the caller's.
        LedgerUnavailable: If the closing may not be durable; the run takes no more steps, and
            asking again closes it.
    """
    state = run_of(runs.ledger, caller, run_id)
    if not state.is_open:
        runs.live.pop(run_id, None)
        return state
    if caller.name == state.analyst:
        end_run(runs, state, CLOSED_BY_ANALYST)
    else:
        end_run(runs, state, CLOSED_BY_STEWARD)
    return run_of(runs.ledger, caller, run_id)


def end_run(runs: Runs, state: RunState, reason: str) -> None:
    """End an open run, whoever asked for it.

    Raises:
        LedgerUnavailable: If the closing may not be durable.
        HolderLost: If another process took the run over.
    """
    live = runs.live.get(state.run_id)
    if live is None:
        _end_orphan(runs, state, reason)
        return
    if runs.setups.end(live):  # its lock is held for long, and no step was claimed
        _end_live(runs, live, reason)
    else:
        with live.lock:
            live.closed = True  # no new step is claimed, whatever the ledger says
            _end_live(runs, live, reason)
    runs.live.pop(state.run_id, None)


def _end_live(runs: Runs, live: LiveRun, reason: str) -> None:
    """End a run that this process holds, and of which no step will be claimed any more.

    Raises:
        LedgerUnavailable: If the closing may not be durable.
        HolderLost: If another process took the run over.
    """
    try:
        runs.close(live, reason)
    except RunClosed:  # another request closed it first
        pass
    except HolderLost:
        runs.live.pop(live.run_id, None)  # open elsewhere; asking again finds where
        raise
    if live.held is not None:
        live.held.end(live.used)


def _end_orphan(runs: Runs, state: RunState, reason: str) -> None:
    """End a run that no process serves: all that was charged counts as answered.

    Raises:
        LedgerUnavailable: If the closing may not be durable, or another process serves the run.
        Unavailable: If the run was taken over here meanwhile.
    """
    with runs.lock, suppress(RunClosed):
        if state.run_id in runs.live:  # adopted meanwhile
            raise Unavailable
        run = runs.ledger.adopt_run(state.run_id, runs.holder)
        runs.ledger.close_run(run.run_id, runs.holder, run.epoch, run.used, reason)
        if runs.states is not None:
            runs.states.forget_run(run)


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


_LOCK_SECONDS = 1.0  # a step claims in microseconds; who holds a lock longer waits for the ledger


def relinquish_runs(runs: Runs) -> None:
    """Return to the budget what open runs of this process were charged ahead; call it at the end.

    What fails stays charged.

    Args:
        runs: Of this process, where no step is being computed any more.
    """
    until = time.monotonic() + _LOCK_SECONDS  # of all: others wait for this process's lease
    for live in list(runs.live.values()):
        if not live.lock.acquire(timeout=max(0.0, until - time.monotonic())):
            continue
        try:
            _relinquish(runs, live)
        except (HolderLost, LedgerConflict, RunClosed):  # another took it over, or ended it
            continue
        except CuratorError:
            _logger.warning("runs could not be relinquished; their last blocks stay charged")
            return
        finally:
            live.lock.release()


def _relinquish(runs: Runs, live: LiveRun) -> None:
    """Let go of one run whose lock is held, unless there is nothing to return.

    Raises:
        HolderLost: If another process took it over.
        LedgerUnavailable: If the ledger does not confirm; it may have been written.
    """
    if live.closed or live.used >= live.mark:
        return
    live.relinquished = True  # first: nothing that comes back may be claimed here
    runs.ledger.relinquish_run(live.run_id, runs.holder, live.epoch, live.used)
