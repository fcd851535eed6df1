"""Charge before touch; same step, same answer; the ledger is the truth after a restart."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from curator.data.sampling import PrivateRecords
from curator.errors import (
    CuratorError,
    LedgerUnavailable,
    MalformedRequest,
    RunClosed,
    StepConflict,
    StepLost,
    StepOutOfOrder,
    Unavailable,
    UnknownRun,
)
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run
from curator.service.find_run import resume_run
from curator.service.live_run import KEPT_ANSWERS
from curator.service.service import Service
from tests.fakes.curator import (
    ALICE,
    BOB,
    STEWARD,
    memory_ledger,
    opened,
    service,
    small_images,
    step_request,
)


class WatchedRecords:
    """Private records that count how often they are touched."""

    def __init__(self) -> None:
        self.touched = 0
        self._inner = PrivateRecords(small_images())

    def poisson_batch(self, *arguments: Any) -> Any:
        self.touched += 1
        return self._inner.poisson_batch(*arguments)

    def is_whole(self) -> bool:
        return self._inner.is_whole()


class BrokenLedger:
    """A ledger that can no longer write marks."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        if self.broken and name == "advance_mark":
            raise LedgerUnavailable
        return getattr(self._inner, name)


@pytest.fixture
def ctx() -> Service:
    return service()


def answer(ctx: Service, run_id: str, step: int, **changes: Any) -> Any:
    return release_gradient(ctx, ALICE, step_request(run_id, step, **changes)).result(10)


def test_every_declared_step_is_answered_and_the_next_is_refused(ctx: Service) -> None:
    run = opened(ctx, num_steps=3)
    for step in (1, 2, 3):
        assert answer(ctx, run.run_id, step).step == step
    with pytest.raises(RunClosed):
        answer(ctx, run.run_id, 4)
    ctx.computing.executor.shutdown(wait=True)
    assert not ctx.runs.ledger.run(run.run_id).is_open
    assert ctx.runs.ledger.run(run.run_id).used == 3


def test_the_mark_is_durable_before_anything_private_is_touched() -> None:
    records, ledger = WatchedRecords(), BrokenLedger(memory_ledger())
    ctx = service(ledger, records=records)  # type: ignore[arg-type]
    run = opened(ctx, num_steps=20)
    answer(ctx, run.run_id, 1)
    assert ctx.runs.ledger.run(run.run_id).used >= 1
    ledger.broken = True
    touched = 0
    for step in range(2, 21):  # steps under the mark are still answered
        try:
            answer(ctx, run.run_id, step)
        except LedgerUnavailable:
            touched = records.touched
            break
    assert touched == step - 1 == ctx.runs.ledger.run(run.run_id).used
    ledger.broken = False
    assert answer(ctx, run.run_id, step).step == step  # the same step goes on


@pytest.mark.parametrize(
    ("step", "error"), [(3, StepOutOfOrder), (5, StepOutOfOrder), (6, RunClosed), (99, RunClosed)]
)
def test_a_step_out_of_order_changes_nothing(
    ctx: Service, step: int, error: type[CuratorError]
) -> None:
    run = opened(ctx)
    answer(ctx, run.run_id, 1)
    with pytest.raises(error):
        answer(ctx, run.run_id, step)
    assert answer(ctx, run.run_id, 2).step == 2


def test_the_same_step_gets_the_same_answer_and_no_second_charge(ctx: Service) -> None:
    run = opened(ctx)
    first = answer(ctx, run.run_id, 1)
    assert answer(ctx, run.run_id, 1) is first
    assert ctx.runs.live[run.run_id].used == 1


def test_a_hundred_twins_at_once_get_one_answer() -> None:
    records = WatchedRecords()
    ctx = service(records=records)  # type: ignore[arg-type]
    run = opened(ctx)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: answer(ctx, run.run_id, 1), range(100)))
    assert len({id(one) for one in answers}) == 1
    assert records.touched == 1


def test_the_same_step_with_other_images_is_a_conflict(ctx: Service) -> None:
    run = opened(ctx)
    first = answer(ctx, run.run_id, 1)
    with pytest.raises(StepConflict):
        answer(ctx, run.run_id, 1, value=0.5)
    assert answer(ctx, run.run_id, 1) is first


def test_an_answer_that_is_no_longer_kept_is_lost_and_never_computed_again() -> None:
    records = WatchedRecords()
    ctx = service(records=records)  # type: ignore[arg-type]
    run = opened(ctx, num_steps=KEPT_ANSWERS + 5)
    for step in range(1, KEPT_ANSWERS + 2):
        answer(ctx, run.run_id, step)
    touched = records.touched
    with pytest.raises(StepLost):
        answer(ctx, run.run_id, 1)
    assert records.touched == touched


def test_answers_to_large_requests_are_fewer_and_the_last_two_always(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator.service.live_run.KEPT_BYTES", 1)
    run = opened(ctx)
    kept = [answer(ctx, run.run_id, step) for step in (1, 2, 3)]
    with pytest.raises(StepLost):
        answer(ctx, run.run_id, 1)
    assert [answer(ctx, run.run_id, step) for step in (2, 3)] == kept[1:]


def test_after_a_restart_the_mark_counts_as_spent_and_the_next_step_follows_it() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run = opened(first, num_steps=100)
    answer(first, run.run_id, 1)
    answer(first, run.run_id, 2)  # steps come fast, so blocks grow
    mark = ledger.run(run.run_id).used
    assert mark > 2
    second = service(ledger, holder="second")
    _, next_step = resume_run(second.runs, ALICE, run.run_id)
    assert next_step == mark + 1
    with pytest.raises(StepLost):
        answer(second, run.run_id, mark)
    assert answer(second, run.run_id, mark + 1).step == mark + 1


def test_a_holder_that_was_replaced_answers_nothing_new() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run = opened(first, num_steps=100)
    answer(first, run.run_id, 1)
    resume_run(service(ledger, holder="second").runs, ALICE, run.run_id)
    mark = ledger.run(run.run_id).used
    for step in range(2, mark + 1):  # its block was charged before it was replaced
        answer(first, run.run_id, step)
    with pytest.raises(LedgerUnavailable):
        answer(first, run.run_id, mark + 1)
    assert close_run(first.runs, ALICE, run.run_id).used == mark  # taken back; nothing is refunded


@pytest.mark.parametrize("mechanism", ["dp-sinkhorn", "mean-embedding"])
def test_samples_that_do_not_fit_are_refused_before_the_charge(
    ctx: Service, mechanism: str
) -> None:
    run = opened(ctx, mechanism)
    used = ctx.runs.live[run.run_id].used
    if mechanism == "dp-sinkhorn":
        with pytest.raises(MalformedRequest):
            answer(ctx, run.run_id, 1, rows=5)
        assert ctx.runs.live[run.run_id].used == used
    assert answer(ctx, run.run_id, 1).step == 1


def test_a_failure_after_the_charge_is_opaque_and_stays_charged(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("row 17 has norm 3.21")

    monkeypatch.setattr(DpSinkhorn, "gradient", fail)
    run = opened(ctx)
    for _ in range(2):  # the twin gets the same
        with pytest.raises(CuratorError) as caught:
            answer(ctx, run.run_id, 1)
        assert type(caught.value) is CuratorError
        assert "3.21" not in str(caught.value)
        assert caught.value.__cause__ is None
    assert ctx.runs.live[run.run_id].used == 1


def test_another_analyst_s_run_does_not_exist(ctx: Service) -> None:
    run = opened(ctx)
    for run_id in (run.run_id, "f" * 32):
        for caller in (BOB, STEWARD):
            with pytest.raises(UnknownRun):
                release_gradient(ctx, caller, step_request(run_id, 1))
        with pytest.raises(UnknownRun):
            close_run(ctx.runs, BOB, run_id)
        with pytest.raises(UnknownRun):
            resume_run(ctx.runs, BOB, run_id)


def test_closing_returns_what_was_not_used(ctx: Service) -> None:
    run = opened(ctx, num_steps=50)
    before = ctx.runs.ledger.statement("small")
    answer(ctx, run.run_id, 1)
    state = close_run(ctx.runs, ALICE, run.run_id)
    after = ctx.runs.ledger.statement("small")
    assert state.used == 1
    assert after.reserved_epsilon == after.spent_epsilon < before.reserved_epsilon
    with pytest.raises(RunClosed):
        answer(ctx, run.run_id, 2)
    assert close_run(ctx.runs, ALICE, run.run_id).used == 1  # again changes nothing


def test_a_charge_whose_confirmation_was_lost_is_found_again() -> None:
    class Forgetful:
        """Writes the mark, then says that it could not."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.forgets = True
            self.confirmed: list[int] = []

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def advance_mark(self, *arguments: Any) -> Any:
            state = self._inner.advance_mark(*arguments)
            if self.forgets:
                raise LedgerUnavailable
            self.confirmed.append(state.used)
            return state

    ledger = Forgetful(memory_ledger())
    now = iter(range(0, 1000, 100))  # each block seems to last long, so blocks shrink
    ctx = service(ledger, monotonic=lambda: float(next(now)))
    run = opened(ctx, num_steps=50)
    resume_run(ctx.runs, ALICE, run.run_id)
    ctx.runs.live[run.run_id].block.size = 8
    with pytest.raises(LedgerUnavailable):
        answer(ctx, run.run_id, 1)
    ledger.forgets = False
    written = ctx.runs.ledger.run(run.run_id).used
    assert written > 1
    assert answer(ctx, run.run_id, 1).step == 1
    assert ctx.runs.live[run.run_id].mark == written
    assert ledger.confirmed == [written]  # and so noted outside, before anything relies on it


def test_a_draining_curator_answers_unavailable_at_once(ctx: Service) -> None:
    run = opened(ctx)
    ctx.computing.executor.shutdown()
    for _ in range(2):
        with pytest.raises(Unavailable):
            answer(ctx, run.run_id, 1)


def test_closing_at_once_from_many_sides_closes_once(ctx: Service) -> None:
    run = opened(ctx)
    answer(ctx, run.run_id, 1)
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _: close_run(ctx.runs, ALICE, run.run_id), range(30)))
    assert {(state.is_open, state.used) for state in states} == {(False, 1)}


def test_used_up_runs_are_forgotten_in_the_end(ctx: Service) -> None:
    for number in range(20):
        run = opened(ctx, num_steps=1, key=f"{number:016d}")
        answer(ctx, run.run_id, 1)
    ctx.computing.executor.shutdown(wait=True)
    assert len(ctx.runs.live) <= 9


@pytest.mark.parametrize("seed", range(8))
def test_a_close_that_races_steps_never_under_counts(seed: int) -> None:
    """Whatever was answered is charged, though the run is closed in the middle of its steps."""
    ctx = service()
    run = opened(ctx, num_steps=400)
    answered: list[int] = []
    start = threading.Barrier(2)

    def step_on() -> None:
        start.wait()
        for number in range(1, 401):
            try:
                answered.append(answer(ctx, run.run_id, number).step)
            except RunClosed:
                return

    stepper = threading.Thread(target=step_on)
    stepper.start()
    start.wait()
    time.sleep(0.002 * seed)
    state = close_run(ctx.runs, ALICE, run.run_id)
    stepper.join()
    assert not state.is_open
    assert max(answered, default=0) <= ctx.runs.ledger.run(run.run_id).used <= len(answered) + 1


def test_a_holder_that_was_replaced_forgets_the_run_that_it_cannot_close() -> None:
    """It must not call the run closed: it is open, somewhere else."""
    ledger = memory_ledger()
    first = service(ledger)
    run = opened(first, num_steps=100)
    answer(first, run.run_id, 1)
    resume_run(service(ledger, holder="second").runs, ALICE, run.run_id)
    with pytest.raises(LedgerUnavailable):
        close_run(first.runs, ALICE, run.run_id)
    assert ledger.run(run.run_id).is_open
    assert run.run_id not in first.runs.live
