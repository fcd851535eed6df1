"""A list of runs as a message."""

from __future__ import annotations

from collections.abc import Iterable

from curator.ledger.datasets_and_runs import RunState
from protos.weir.v1 import run_pb2


def encode_runs(states: Iterable[RunState], num_left_out: int = 0) -> run_pb2.ListRunsResponse:
    """Encode runs.

    Args:
        states: That the caller may see and asked for, in the order to be shown.
        num_left_out: Closed runs that were one too many.
    """
    return run_pb2.ListRunsResponse(
        runs=[_summary(state) for state in states], num_left_out=num_left_out
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
        one_release=state.is_one_release,
    )
