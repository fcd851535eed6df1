"""Close a run and return what it did not use, counted exactly under the lock that claims take."""

from __future__ import annotations

from contextlib import suppress

from curator.errors import RunClosed
from curator.ledger.ledger import RunState
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.find_run import live_run, run_of

CLOSED_BY_ANALYST = "closed by the analyst"


def close_run(context: Context, caller: Caller, run_id: str) -> RunState:
    """Close a run; closing a closed run changes nothing.

    Args:
        context: The collaborators.
        caller: The owner of the run.
        run_id: Which run.

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
    try:
        live = live_run(context, caller, run_id)
    except RunClosed:
        return run_of(context, caller, run_id)
    with live.lock:
        live.closed = True  # no new step is claimed, whatever the ledger says
        with suppress(RunClosed):  # another request closed it first
            context.ledger.close_run(
                run_id, context.holder, live.epoch, live.used, CLOSED_BY_ANALYST
            )
    context.live_runs.pop(run_id, None)
    return run_of(context, caller, run_id)
