"""A list of runs as a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from curator.ledger.records import RunState
from protos.weir.v1 import run_pb2

MOST_CLOSED: Final = 200


def encode_runs(states: Iterable[RunState], *, open_only: bool) -> run_pb2.ListRunsResponse:
    """Encode runs, the latest first: all that are open, and the last closed ones.

    Args:
        states: That the caller may see, in the order in which they were opened.
        open_only: Leave out closed runs, and do not count them either.

    Returns:
        The message; it says how many closed runs were one too many.
    """
    latest_first = [*states][::-1]  # not by time: the clock may have been set
    closed = [state for state in latest_first if not state.is_open and not open_only]
    shown = {state.run_id for state in closed[:MOST_CLOSED]}
    return run_pb2.ListRunsResponse(
        runs=[_summary(state) for state in latest_first if state.is_open or state.run_id in shown],
        num_left_out=len(closed) - len(shown),
    )


def _summary(state: RunState) -> run_pb2.RunSummary:
    status = run_pb2.RUN_STATUS_OPEN if state.is_open else run_pb2.RUN_STATUS_CLOSED
    return run_pb2.RunSummary(
        run_id=state.run_id,
        dataset=state.dataset,
        analyst=state.analyst,
        mechanism=state.mechanism,
        status=status,
        num_steps=state.num_steps,
        used_steps=state.used,
        close_reason=state.close_reason,
        opened_at=state.opened_at,
        closed_at=state.closed_at,
    )
