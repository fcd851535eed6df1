"""Hand out the one release of a run again; it was paid for when the run opened."""

from __future__ import annotations

from curator.errors import MalformedRequest, RunClosed, Unavailable, UnknownRun
from curator.ledger.ledger import RunState
from curator.ledger.problems import HolderAlive
from curator.mechanisms.base import Kind
from curator.privacy.release import Release
from curator.sanitizer.stored import decode_release
from curator.service.caller import Caller
from curator.service.find_run import live_run, run_of
from curator.service.runs import Runs

_NONE = "run_id: this run made no release when it opened"
_MAKING = "the one release of this run is still being made: ask again when it is ready"


def download_release(runs: Runs, caller: Caller, run_id: str) -> tuple[RunState, Release]:
    """Return the one release of a run, the same bytes every time, also after the run is closed.

    Nothing is computed and no private byte is read: the ledger keeps what was released, and kept it
    only after the charge was durable.

    Args:
        runs: Of this process.
        caller: Who asks; only the owner of the run may download.
        run_id: Which run.

    Returns:
        The ledger's record of the run, and its release.

    Raises:
        UnknownRun: If there is none, or it is not the caller's.
        MalformedRequest: If nothing was released when it opened.
        Unavailable: If its release is still being made.
        RunClosed: If its release was lost in a crash, or ended while it was made.
    """
    state = run_of(runs.ledger, caller, run_id)
    if state.analyst != caller.name:
        raise UnknownRun
    is_making = runs.setups.is_making(run_id)  # before the look: what is kept ends it
    payload = runs.ledger.setup_payload(run_id)
    if payload is not None:
        return state, decode_release(payload)
    if is_making:
        raise Unavailable(_MAKING)
    if not state.setup_begun:
        raise MalformedRequest(_NONE)
    if not state.is_open:
        msg = f"it has no release ({state.close_reason}); it is never made again for free"
        raise RunClosed(msg)
    try:
        live = live_run(runs, caller, run_id)  # closes it if it was lost with its process
    except HolderAlive:  # another curator
        raise Unavailable(_MAKING) from None
    if live.mechanism.kind is not Kind.RELEASED_ONCE:  # what was charged is a state's
        raise MalformedRequest(_NONE)
    raise Unavailable  # it was kept just now
