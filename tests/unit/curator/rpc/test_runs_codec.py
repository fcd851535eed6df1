"""A list of runs: the latest first, with how many were left out."""

from __future__ import annotations

import pytest

from analyst.client.messages import run_list
from curator.ledger.datasets_and_runs import NOTHING, RunState, RunStatus
from curator.rpc.codec import encode_runs
from protos.weir.v1 import run_pb2
from tests.fakes.curator import opened, service


def _run(number: int) -> RunState:
    """Return one of ten runs, opened one after the other, every second of them closed."""
    is_open, at = number % 2 == 0, f"2026-01-{number + 1:02}T00:00:00+00:00"
    return RunState(
        run_id=f"run-{number}",
        dataset="digits",
        analyst="alice",
        mechanism="dp-sinkhorn",
        parameters_json="{}",
        setup=NOTHING,
        step=NOTHING,
        num_steps=20,
        setup_event_json="{}",
        step_event_json="{}",
        used=number,
        answered=0,
        status=RunStatus.OPEN if is_open else RunStatus.CLOSED,
        close_reason="" if is_open else "declared steps used",
        holder="h",
        epoch=1,
        setup_begun=True,
        setup_digest="",
        opened_at=at,
        closed_at="" if is_open else at,
    )


STATES = [_run(number) for number in range(10)]


def test_runs_come_latest_first_with_what_they_used() -> None:
    message = encode_runs(reversed(STATES))
    assert [run.run_id for run in message.runs] == [f"run-{k}" for k in reversed(range(10))]
    assert [run.used_steps for run in message.runs] == list(reversed(range(10)))
    assert message.runs[0].status == run_pb2.RUN_STATUS_CLOSED
    assert message.runs[0].close_reason == "declared steps used"
    assert message.runs[1].status == run_pb2.RUN_STATUS_OPEN
    assert message.runs[1].closed_at == ""
    assert message.num_left_out == 0


def test_what_was_left_out_is_counted() -> None:
    assert encode_runs(STATES[:2], 3).num_left_out == 3


@pytest.mark.parametrize(
    ("mechanism", "is_one"),
    [("mean-embedding", True), ("dp-sinkhorn", False), ("gs-wgan-mean", False)],
)
def test_what_is_released_once_is_told_apart(mechanism: str, is_one: bool) -> None:
    ctx = service()
    opened(ctx, mechanism)
    told = encode_runs(ctx.runs.ledger.runs())
    assert told.runs[0].one_release is is_one
    assert run_list(told).runs[0].one_release is is_one
