"""Close a run and return what it did not use, counted exactly under the lock that claims take."""

from __future__ import annotations

from contextlib import suppress

from curator.errors import RunClosed, Unavailable
from curator.ledger.ledger import RunState
from curator.ledger.problems import HolderLost
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.find_run import run_of
from curator.service.live_run import LiveRun

CLOSED_BY_ANALYST = "closed by the analyst"
CLOSED_BY_STEWARD = "closed by the steward"


def close_run(context: Context, caller: Caller, run_id: str) -> RunState:
    """Close a run; closing a closed run changes nothing.

    Returns:
        The ledger's record after closing.

    Raises:
        UnknownRun: If the run is not the caller's.
        LedgerUnavailable: If the closing may not be durable; the run takes no more steps, and
            asking again closes it.
    """
    state = run_of(context, caller, run_id)
    if not state.is_open:
        context.live_runs.pop(run_id, None)
        return state
    if caller.name == state.analyst:
        end_run(context, state, CLOSED_BY_ANALYST)
    else:
        end_run(context, state, CLOSED_BY_STEWARD)
    return run_of(context, caller, run_id)


def end_run(context: Context, state: RunState, reason: str) -> None:
    """End an open run, whoever asked for it.

    Raises:
        LedgerUnavailable: If the closing may not be durable.
        HolderLost: If another process took the run over.
    """
    live = context.live_runs.get(state.run_id)
    if live is None:
        _end_orphan(context, state, reason)
        return
    if context.setups.end(live):  # its lock is held for long, and no step was claimed
        _end_live(context, live, reason)
    else:
        with live.lock:
            live.closed = True  # no new step is claimed, whatever the ledger says
            _end_live(context, live, reason)
    context.live_runs.pop(state.run_id, None)


def _end_live(context: Context, live: LiveRun, reason: str) -> None:
    """End a run that this process holds, and of which no step will be claimed any more.

    Raises:
        LedgerUnavailable: If the closing may not be durable.
        HolderLost: If another process took the run over.
    """
    try:
        context.ledger.close_run(live.run_id, context.holder, live.epoch, live.used, reason)
    except RunClosed:  # another request closed it first
        pass
    except HolderLost:
        context.live_runs.pop(live.run_id, None)  # open elsewhere; asking again finds where
        raise
    if live.held is not None:
        live.held.end(live.used)


def _end_orphan(context: Context, state: RunState, reason: str) -> None:
    """End a run that no process serves: all that was charged counts as answered.

    Raises:
        LedgerUnavailable: If the closing may not be durable, or another process serves the run.
        Unavailable: If the run was taken over here meanwhile.
    """
    with context.runs_lock, suppress(RunClosed):
        if state.run_id in context.live_runs:  # adopted meanwhile
            raise Unavailable
        run = context.ledger.adopt_run(state.run_id, context.holder)
        context.ledger.close_run(run.run_id, context.holder, run.epoch, run.used, reason)
        if context.states is not None:
            context.states.forget_run(run)
