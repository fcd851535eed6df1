"""A process that ends in order gives back what it had charged ahead, and never what it began."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from curator.accounting.cost import total_cost
from curator.errors import LedgerUnavailable, StepLost, Unavailable
from curator.ledger.memory import MemoryLedger
from curator.service import end_runs as module
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run, relinquish_runs
from curator.service.find_run import resume_run
from curator.service.service import Service
from curator.state.folder import StateFolder
from tests.fakes.curator import ALICE, memory_ledger, opened, service, step_request


def answer(ctx: Service, run_id: str, step: int) -> Any:
    return release_gradient(ctx, ALICE, step_request(run_id, step)).result(10)


class UnsureLedger:
    """A ledger that writes what is relinquished, or does not, and never confirms it."""

    def __init__(self, inner: MemoryLedger, *, writes: bool) -> None:
        self._inner = inner
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def relinquish_run(self, *asked: Any) -> None:
        if self._writes:
            self._inner.relinquish_run(*asked)
        raise LedgerUnavailable


def after_steps(ledger: Any, count: int) -> tuple[Service, str]:
    ctx = service(ledger)
    run = opened(ctx, num_steps=100)
    for step in range(1, count + 1):
        answer(ctx, run.run_id, step)
    assert ledger.run(run.run_id).used > count  # steps come fast, so blocks grow
    return ctx, run.run_id


def test_the_next_process_goes_on_with_the_next_step_and_nothing_is_lost() -> None:
    ledger = memory_ledger()
    ctx, run_id = after_steps(ledger, 5)
    relinquish_runs(ctx.runs)
    run = ledger.run(run_id)
    assert (run.used, run.is_open) == (5, True)
    assert ledger.account("small").spent == total_cost([(run.step, 5)])
    second = service(ledger, holder="second")
    assert resume_run(second.runs, ALICE, run_id)[1] == 6
    with pytest.raises(StepLost):
        answer(second, run_id, 5)
    assert answer(second, run_id, 6).step == 6
    ledger.verify()


def test_no_step_is_claimed_after_that_and_answered_ones_are_still_told() -> None:
    ledger = memory_ledger()
    ctx, run_id = after_steps(ledger, 5)
    told = answer(ctx, run_id, 5)
    relinquish_runs(ctx.runs)
    for step in (6, 7):
        with pytest.raises(Unavailable):
            answer(ctx, run_id, step)
    assert answer(ctx, run_id, 5) is told
    assert ledger.run(run_id).used == 5


@pytest.mark.parametrize("writes", [True, False])
def test_none_is_claimed_either_when_the_ledger_does_not_confirm(writes: bool) -> None:
    ledger = memory_ledger()
    ctx, run_id = after_steps(UnsureLedger(ledger, writes=writes), 5)
    before = ledger.run(run_id).used
    relinquish_runs(ctx.runs)
    with pytest.raises(Unavailable):
        answer(ctx, run_id, 6)
    assert ledger.run(run_id).used == (5 if writes else before)


def test_a_run_that_was_taken_over_or_ended_is_left_alone() -> None:
    ledger = memory_ledger()
    ctx, taken = after_steps(ledger, 5)
    resume_run(service(ledger, holder="second").runs, ALICE, taken)
    ended = opened(ctx, num_steps=3, key="b" * 16)
    answer(ctx, ended.run_id, 1)
    close_run(ctx.runs, ALICE, ended.run_id)
    elsewhere = opened(ctx, num_steps=100, key="d" * 16)
    for step in range(1, 6):
        answer(ctx, elsewhere.run_id, step)
    close_run(service(ledger, holder="third").runs, ALICE, elsewhere.run_id)
    exact = opened(ctx, num_steps=3, key="c" * 16)  # of which nothing was charged
    last = opened(ctx, num_steps=100, key="e" * 16)
    for step in range(1, 6):
        answer(ctx, last.run_id, step)
    seq, _ = ledger.head()
    relinquish_runs(ctx.runs)
    (entry,) = ledger.entries(seq)
    assert (entry.kind, ledger.run(last.run_id).used) == ("run-relinquished", 5)
    assert ledger.run(exact.run_id).holder == "first"


def test_a_run_whose_lock_is_held_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.01)
    ledger = memory_ledger()
    ctx, run_id = after_steps(ledger, 5)
    other = opened(ctx, num_steps=100, key="b" * 16)
    for step in range(1, 6):
        answer(ctx, other.run_id, step)
    before = ledger.run(run_id)
    with ctx.runs.live[run_id].lock:
        relinquish_runs(ctx.runs)
    assert ledger.run(run_id) == before
    assert ledger.run(other.run_id).used == 5  # its lock was free, though the time was up


@pytest.mark.parametrize("seed", range(8))
def test_racing_steps_are_never_under_counted(seed: int) -> None:
    """Whatever was answered stays charged, though a handler was late and still claims steps."""
    ledger = memory_ledger()
    ctx = service(ledger)
    run_id = opened(ctx, num_steps=4000).run_id
    answered: list[int] = []
    start = threading.Barrier(2)

    def step_on() -> None:
        start.wait()
        for number in range(1, 4001):
            try:
                answered.append(answer(ctx, run_id, number).step)
            except Unavailable:
                return

    stepper = threading.Thread(target=step_on)
    stepper.start()
    start.wait()
    time.sleep(0.002 * seed)
    live = ctx.runs.live[run_id]
    while live.used == live.mark and not live.closed:  # nothing would come back
        time.sleep(0)
    relinquish_runs(ctx.runs)
    live.relinquished = True  # where it had just used its block up
    stepper.join()
    assert max(answered, default=0) <= ledger.run(run_id).used


def test_a_kept_state_goes_on_from_there(tmp_path: Path) -> None:
    """Its files hold exactly the steps that the ledger counts; no other process would have them."""
    ledger = memory_ledger()
    first = service(ledger, states=StateFolder(tmp_path))
    run_id = opened(first, "gs-wgan-mean", num_steps=100).run_id
    for step in range(1, 6):
        answer(first, run_id, step)
    assert ledger.run(run_id).used > 5
    relinquish_runs(first.runs)
    second = service(ledger, holder="second", states=StateFolder(tmp_path))
    assert resume_run(second.runs, ALICE, run_id)[1] == 6
    assert [answer(second, run_id, step).step for step in (6, 7)] == [6, 7]
    relinquish_runs(second.runs)
    assert ledger.run(run_id).used == 7


def test_a_release_that_was_charged_once_is_kept() -> None:
    ledger = memory_ledger()
    ctx = service(ledger)
    run_id = opened(ctx, "mean-embedding", num_steps=100).run_id
    for step in range(1, 6):
        answer(ctx, run_id, step)
    spent = ledger.account("small").spent
    relinquish_runs(ctx.runs)
    second = service(ledger, holder="second")
    assert resume_run(second.runs, ALICE, run_id)[1] == 6
    assert answer(second, run_id, 6).step == 6
    assert ledger.account("small").spent == spent
