"""Close a run and return what it did not use, counted exactly under the lock that claims take."""

from __future__ import annotations

from contextlib import suppress

from curator.errors import RunClosed, Unavailable
from curator.ledger.ledger import RunState
from curator.ledger.problems import HolderLost
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
