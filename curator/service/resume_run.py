"""Tell a client where its run stands; the ledger is the truth, never the client."""

from __future__ import annotations

from curator.ledger.ledger import RunState
from curator.service.caller import Caller
from curator.service.find_run import live_run, run_of
from curator.service.runs import Runs


def resume_run(runs: Runs, caller: Caller, run_id: str) -> tuple[RunState, int]:
    """Return a run and the step that is expected next.

    Returns:
        The ledger's record, and the next step; for a closed run the step after the last used one.

    Raises:
        UnknownRun: If the run is not the caller's.
        RunClosed: If its one release was lost in a crash.
    """
    state = run_of(runs.ledger, caller, run_id)
    if not state.is_open or state.analyst != caller.name:
        return state, state.used + 1
    live = live_run(runs, caller, run_id)
    with live.lock:
        return run_of(runs.ledger, caller, run_id), live.used + 1
