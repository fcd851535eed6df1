"""Idle runs give back what they did not use; the steward can end a run too."""

from __future__ import annotations

import pytest

from curator.errors import RunClosed, UnknownRun
from curator.service.answer_step import release_gradient
from curator.service.end_runs import (
    CLOSED_AS_IDLE,
    CLOSED_BY_STEWARD,
    IdleRuns,
    close_run,
    relinquish_runs,
)
from tests.fakes.curator import ALICE, BOB, STEWARD, memory_ledger, opened, service, step_request


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_only_what_was_idle_for_long_is_closed() -> None:
    clock = Clock()
    ctx = service(monotonic=clock)
    idle, busy = opened(ctx, key="a" * 16), opened(ctx, key="b" * 16, caller=BOB)
    idle_runs = IdleRuns(ctx.runs, 100.0)
    release_gradient(ctx, ALICE, step_request(idle.run_id, 1)).result(10)
    clock.now += 60
    release_gradient(ctx, BOB, step_request(busy.run_id, 1)).result(10)
    clock.now += 60
    idle_runs.end()
    closed = ctx.runs.ledger.run(idle.run_id)
    assert (closed.is_open, closed.used, closed.close_reason) == (False, 1, CLOSED_AS_IDLE)
    assert ctx.runs.ledger.run(busy.run_id).is_open
    with pytest.raises(RunClosed):
        release_gradient(ctx, ALICE, step_request(idle.run_id, 2))


def test_an_orphan_is_closed_at_its_mark() -> None:
    ledger, clock = memory_ledger(), Clock()
    first = service(ledger)
    run = opened(first, num_steps=100)
    release_gradient(first, ALICE, step_request(run.run_id, 1)).result(10)
    mark = ledger.run(run.run_id).used
    idle_runs = IdleRuns(service(ledger, holder="second", monotonic=clock).runs, 100.0)
    clock.now += 99
    idle_runs.end()
    assert ledger.run(run.run_id).is_open
    clock.now += 1
    idle_runs.end()
    assert (ledger.run(run.run_id).is_open, ledger.run(run.run_id).used) == (False, mark)


def test_a_run_that_another_process_served_until_now_is_not_idle() -> None:
    """It may have been stopped in order a moment ago, while its analyst waits for another."""
    ledger, clock = memory_ledger(), Clock()
    first = service(ledger)
    run = opened(first, num_steps=100)
    idle_runs = IdleRuns(service(ledger, holder="second", monotonic=clock).runs, 100.0)
    for step in range(1, 5):
        release_gradient(first, ALICE, step_request(run.run_id, step)).result(10)
        clock.now += 60
        idle_runs.end()
    assert ledger.run(run.run_id).is_open
    relinquish_runs(first.runs)
    idle_runs.end()
    clock.now += 99
    idle_runs.end()
    assert ledger.run(run.run_id).is_open
    clock.now += 1
    idle_runs.end()
    closed = ledger.run(run.run_id)
    assert (closed.is_open, closed.used, closed.close_reason) == (False, 4, CLOSED_AS_IDLE)


def test_a_run_that_another_process_opened_lately_is_not_idle() -> None:
    ledger, clock = memory_ledger(), Clock()
    idle_runs = IdleRuns(service(ledger, holder="second", monotonic=clock).runs, 100.0)
    for _ in range(5):
        clock.now += 60
        idle_runs.end()
    run = opened(service(ledger), num_steps=100)
    clock.now += 60
    idle_runs.end()
    assert ledger.run(run.run_id).is_open
    clock.now += 60
    idle_runs.end()
    assert not ledger.run(run.run_id).is_open


def test_the_steward_ends_a_run_and_another_analyst_cannot() -> None:
    ctx = service()
    run = opened(ctx)
    with pytest.raises(UnknownRun):
        close_run(ctx.runs, BOB, run.run_id)
    assert close_run(ctx.runs, STEWARD, run.run_id).close_reason == CLOSED_BY_STEWARD
    assert ctx.runs.ledger.statement("small").reserved_epsilon == 0.0
