"""Hand out the one release of a run again; it was paid for when the run opened."""

from __future__ import annotations

from curator.errors import MalformedRequest, RunClosed, UnknownRun
from curator.ledger.ledger import RunState
from curator.privacy.release import Release
from curator.sanitizer.stored import decode_release
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.find_run import run_of


def download_release(context: Context, caller: Caller, run_id: str) -> tuple[RunState, Release]:
    """Return the one release of a run, the same bytes every time, also after the run is closed.

    Nothing is computed and no private byte is read: the ledger keeps what was released, and kept it
    only after the charge was durable.

    Args:
        context: The collaborators.
        caller: Who asks; only the owner of the run may download.
        run_id: Which run.

    Returns:
        The ledger's record of the run, and its release.

    Raises:
        UnknownRun: If there is none, or it is not the caller's.
        MalformedRequest: If nothing was released when it opened.
        RunClosed: If its release was lost in a crash, or is still being made.
    """
    state = run_of(context, caller, run_id)
    if state.analyst != caller.name:
        raise UnknownRun
    payload = context.ledger.setup_payload(run_id)
    if payload is not None:
        return state, decode_release(payload)
    if not state.setup_begun:
        msg = "run_id: this run made no release when it opened"
        raise MalformedRequest(msg)
    msg = "its one release was lost in a crash; what was charged is never noised again for free"
    raise RunClosed(msg)
