"""A run with a private state: charged before it is made, advanced in order, never made twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from curator.data.sampling import PrivateRecords
from curator.errors import CuratorError, LedgerUnavailable, RunClosed, StepLost
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.release import LatticeBlock
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run
from curator.service.fair_turns import InTurn
from curator.service.find_run import resume_run
from curator.service.live_run import KEPT_ANSWERS
from curator.service.service import Service
from curator.state.in_memory import StateInMemory
from tests.fakes.curator import (
    ALICE,
    memory_ledger,
    opened,
    service,
    small_images,
    step_request,
)
from tests.fakes.noise import NoNoise


class WatchedRecords:
    """Private records that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0
        self._inner = PrivateRecords(small_images())

    def batches(self, rows: int) -> Any:
        self.reads += 1
        return self._inner.batches(rows)

    def is_whole(self) -> bool:  # looks at the length of a file, which is not an image
        return self._inner.is_whole()


class BrokenLedger:
    """A ledger that cannot write marks until it is mended."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.broken = True

    def __getattr__(self, name: str) -> Any:
        if self.broken and name == "advance_mark":
            raise LedgerUnavailable
        return getattr(self._inner, name)


def answer(ctx: Service, run_id: str, step: int, **changes: Any) -> Any:
    return release_gradient(ctx, ALICE, step_request(run_id, step, **changes)).result(10)


def critics(ctx: Service, **changes: Any) -> str:
    return opened(ctx, "gs-wgan-mean", **changes).run_id


@contextmanager
def claimed(ctx: Service, run_id: str, steps: range) -> Iterator[dict[int, Any]]:
    """Claim steps one after the other, each in a thread of its own, and collect the answers."""
    answers: dict[int, Any] = {}

    def ask(step: int) -> None:
        answers[step] = answer(ctx, run_id, step, value=step / 10)

    threads = [threading.Thread(target=ask, args=(step,)) for step in steps]
    for step, thread in zip(steps, threads, strict=True):
        thread.start()
        while ctx.runs.live[run_id].used < step:
            time.sleep(0.001)
    yield answers
    for thread in threads:
        thread.join(20)


def held(ctx: Service, run_id: str) -> StateInMemory:
    found = ctx.runs.live[run_id].held
    assert found is not None
    return found


def test_nothing_is_read_before_a_charge() -> None:
    records, ledger = WatchedRecords(), BrokenLedger(memory_ledger())
    ctx = service(ledger, records=records)  # type: ignore[arg-type]
    run_id = critics(ctx)
    with pytest.raises(LedgerUnavailable):
        answer(ctx, run_id, 1)
    assert records.reads == 0
    assert held(ctx, run_id)._state is None
    ledger.broken = False
    answer(ctx, run_id, 1)
    answer(ctx, run_id, 2)
    assert records.reads == 1  # by the first step only


def test_the_same_step_is_the_same_answer_and_moves_the_state_once() -> None:
    ctx = service()
    run_id = critics(ctx)
    first = answer(ctx, run_id, 1)
    state = held(ctx, run_id)._state
    assert answer(ctx, run_id, 1) is first
    assert held(ctx, run_id)._state is state
    answer(ctx, run_id, 2)
    assert held(ctx, run_id)._state is not state


def test_an_old_step_is_lost_and_does_not_move_the_state() -> None:
    ctx = service()
    run_id = critics(ctx, num_steps=KEPT_ANSWERS + 2)
    for step in range(1, KEPT_ANSWERS + 2):
        answer(ctx, run_id, step)
    state = held(ctx, run_id)._state
    with pytest.raises(StepLost):
        answer(ctx, run_id, 1)
    assert held(ctx, run_id)._state is state


def test_steps_pass_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimed at once and computed by two threads, they give what one after the other gives."""
    alone = service(noise=NoNoise())
    run_id = critics(alone)
    expected = [answer(alone, run_id, step, value=step / 10) for step in range(1, 6)]
    ctx = service(noise=NoNoise())
    ready = threading.Event()
    real = GsWganMean.start

    def late(self: GsWganMean, batches: Any) -> NetworkState:
        ready.wait(10)
        return real(self, batches)

    monkeypatch.setattr(GsWganMean, "start", late)
    run_id = critics(ctx)
    with claimed(ctx, run_id, range(1, 6)) as answers:
        ready.set()
    for number, one in enumerate(expected, start=1):
        (found,), (wanted,) = answers[number].release.blocks, one.release.blocks
        assert isinstance(found, LatticeBlock)
        assert torch.equal(found.integers, wanted.integers)


def test_making_a_state_takes_no_place_of_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = service(executor=InTurn(1), preparing=InTurn(1))
    slow, quick = critics(ctx), opened(ctx, key="b" * 16).run_id
    ready, real = threading.Event(), GsWganMean.start

    def late(self: GsWganMean, batches: Any) -> NetworkState:
        ready.wait(10)
        return real(self, batches)

    monkeypatch.setattr(GsWganMean, "start", late)
    with claimed(ctx, slow, range(1, 2)) as answers:
        assert answer(ctx, quick, 1).step == 1
        assert not answers
        ready.set()
    assert answers[1].step == 1
    assert held(ctx, slow).is_ready


def test_a_failed_step_leaves_the_state_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx = service()
    run_id = critics(ctx)
    answer(ctx, run_id, 1)
    state = held(ctx, run_id)._state

    def fail(*_: Any) -> Any:
        raise ValueError("row 17")

    with monkeypatch.context() as patch:
        patch.setattr(GsWganMean, "gradient", fail)
        with pytest.raises(CuratorError) as caught:
            answer(ctx, run_id, 2)
    assert "17" not in str(caught.value)
    assert held(ctx, run_id)._state is state
    assert answer(ctx, run_id, 3).step == 3


def test_a_lost_state_closes_the_run_and_returns_what_was_not_used() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run_id = critics(first, num_steps=100)
    answer(first, run_id, 1)
    mark = ledger.run(run_id).used
    assert 1 <= mark < 100
    second = service(ledger, holder="second")
    with pytest.raises(RunClosed, match="state was lost"):
        resume_run(second.runs, ALICE, run_id)
    closed = ledger.run(run_id)
    assert not closed.is_open
    assert closed.used == mark
    statement = ledger.statement("small")
    assert statement.spent_epsilon == statement.reserved_epsilon
    with pytest.raises(RunClosed):
        answer(second, run_id, mark + 1)


def test_a_run_that_has_no_state_yet_is_taken_over() -> None:
    ledger = memory_ledger()
    run_id = critics(service(ledger), num_steps=3)
    second = service(ledger, holder="second")
    assert resume_run(second.runs, ALICE, run_id)[1] == 1
    assert answer(second, run_id, 1).step == 1


def test_a_replaced_holder_does_not_go_on() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run_id = critics(first, num_steps=100)
    answer(first, run_id, 1)
    mark = ledger.run(run_id).used
    with pytest.raises(RunClosed):
        resume_run(service(ledger, holder="second").runs, ALICE, run_id)
    for step in range(2, mark + 1):  # charged before it was replaced
        answer(first, run_id, step)
    with pytest.raises((LedgerUnavailable, RunClosed)):
        answer(first, run_id, mark + 1)


def test_the_state_is_forgotten_when_the_run_ends() -> None:
    ctx = service()
    used_up = critics(ctx, num_steps=2)
    kept = held(ctx, used_up)
    answer(ctx, used_up, 1)
    assert kept._state is not None
    answer(ctx, used_up, 2)
    closed = critics(ctx, num_steps=2, key="b" * 16)
    other = held(ctx, closed)
    answer(ctx, closed, 1)
    close_run(ctx.runs, ALICE, closed)
    ctx.computing.executor.shutdown(wait=True)
    assert kept._state is None
    assert other._state is None
    assert repr(kept) == "StateInMemory(<sealed>)"


def test_claimed_steps_are_answered_although_the_run_ends_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx = service()
    run_id = critics(ctx)
    ready, real = threading.Event(), GsWganMean.start

    def late(self: GsWganMean, batches: Any) -> NetworkState:
        ready.wait(10)
        return real(self, batches)

    monkeypatch.setattr(GsWganMean, "start", late)
    kept = held(ctx, run_id)
    with claimed(ctx, run_id, range(1, 4)) as answers:
        assert close_run(ctx.runs, ALICE, run_id).used == 3
        ready.set()
    assert [answers[step].step for step in (1, 2, 3)] == [1, 2, 3]
    ctx.computing.executor.shutdown(wait=True)
    assert kept._state is None
