"""What a run costs beside its steps is charged before the first of them, once, and not before."""

from __future__ import annotations

from typing import Any

import pytest

from curator.errors import LedgerUnavailable
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.memory import MemoryLedger
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run
from curator.service.find_run import resume_run
from curator.service.service import Service
from tests.fakes.curator import ALICE, memory_ledger, opened, service, step_request


class FailingLedger:
    """Fails at one method, before it writes or after."""

    def __init__(self, inner: MemoryLedger, method: str, *, writes: bool) -> None:
        self._inner = inner
        self._method = method
        self._writes = writes
        self.fails = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._failing(found) if self.fails and name == self._method else found

    def _failing(self, method: Any) -> Any:
        def call(*arguments: Any) -> None:
            if self._writes:
                method(*arguments)
            raise LedgerUnavailable

        return call


def answer(ctx: Service, run_id: str, step: int) -> Any:
    return release_gradient(ctx, ALICE, step_request(run_id, step, 0.5)).result(20)


def test_a_run_that_takes_no_step_costs_nothing() -> None:
    ledger = memory_ledger()
    ctx = service(ledger)
    run = opened(ctx, "gs-wgan-round-robin", num_steps=9)
    assert not run.setup.is_zero
    resume_run(service(ledger, holder="second").runs, ALICE, run.run_id)
    assert ledger.account("small").spent.is_zero
    close_run(service(ledger, holder="third").runs, ALICE, run.run_id)
    assert ledger.account("small").reserved.is_zero


def test_the_first_step_pays_it_and_no_later_one() -> None:
    ledger = memory_ledger()
    ctx = service(ledger)
    run = opened(ctx, "gs-wgan-round-robin", num_steps=9)
    assert answer(ctx, run.run_id, 1).step == 1
    assert ledger.account("small").spent == run.setup + run.step
    answer(ctx, run.run_id, 2)
    assert [entry.kind for entry in ledger.entries()].count("setup-begun") == 1
    close_run(ctx.runs, ALICE, run.run_id)
    account = ledger.account("small")
    assert account.spent == account.reserved == run.setup + run.step * 2
    ledger.verify()


@pytest.mark.parametrize("method", ["begin_setup", "advance_mark"])
@pytest.mark.parametrize("writes", [True, False])
def test_a_charge_that_is_not_confirmed_is_made_once(method: str, writes: bool) -> None:
    ledger = FailingLedger(memory_ledger(), method, writes=writes)
    ctx = service(ledger)
    run = opened(ctx, "gs-wgan-round-robin", num_steps=9)
    with pytest.raises(LedgerUnavailable):
        answer(ctx, run.run_id, 1)
    ledger.fails = False
    assert answer(ctx, run.run_id, 1).step == 1
    assert [entry.kind for entry in ledger.entries()].count("setup-begun") == 1
    close_run(ctx.runs, ALICE, run.run_id)
    assert ledger.account("small").spent == run.setup + run.step


def test_a_confirmation_that_comes_late_is_found_at_the_next_try() -> None:
    class Late:
        """Shows a run as it was before its setup was written."""

        def __init__(self, inner: MemoryLedger) -> None:
            self._inner = inner
            self.stale: RunState | None = None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def run(self, run_id: str) -> RunState:
            return self.stale or self._inner.run(run_id)

    ledger = Late(memory_ledger())
    ctx = service(ledger)
    run = opened(ctx, "gs-wgan-round-robin", num_steps=9)
    ledger.begin_setup(run.run_id, ctx.runs.holder, run.epoch)
    ledger.stale = run
    with pytest.raises(LedgerUnavailable):
        answer(ctx, run.run_id, 1)
    ledger.stale = None
    assert answer(ctx, run.run_id, 1).step == 1
    assert [entry.kind for entry in ledger.entries()].count("setup-begun") == 1


def test_who_was_replaced_pays_nothing() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run = opened(first, "gs-wgan-round-robin", num_steps=9)
    resume_run(service(ledger, holder="second").runs, ALICE, run.run_id)
    before = ledger.head()
    with pytest.raises(LedgerUnavailable):
        answer(first, run.run_id, 1)
    assert ledger.head() == before
    assert run.run_id not in first.runs.live
