"""Getting ready for a step draws its sample, charges nothing, and can fail without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from curator.data.sampling import PrivateRecords
from curator.service.answer_step import prepare_step, release_gradient
from curator.service.service import Service
from tests.fakes.curator import ALICE, opened, service, step_request


@pytest.fixture
def ctx() -> Service:
    return service()


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(PrivateRecords, "draw_ahead", lambda *given: calls.append(given))
    return calls


def test_the_next_step_s_sample_is_drawn_and_nothing_is_charged(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = drawn(monkeypatch)
    run = opened(ctx, num_steps=3)
    release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    live = ctx.runs.live[run.run_id]
    used, mark = live.used, live.mark
    prepare_step(ctx, run.run_id)
    mechanism: Any = live.mechanism
    assert calls == [
        (live.records, mechanism.spec.rate, mechanism.spec.capacity, ctx.computing.noise)
    ]
    assert (live.used, live.mark) == (used, mark)


def test_after_the_last_step_nothing_is_drawn(
    ctx: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = drawn(monkeypatch)
    run = opened(ctx, num_steps=1)
    release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    prepare_step(ctx, run.run_id)
    prepare_step(ctx, "no such run")
    assert calls == []


def test_a_failure_is_nobody_s(ctx: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(PrivateRecords, "draw_ahead", failing)
    run = opened(ctx, num_steps=3)
    release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    prepare_step(ctx, run.run_id)
    assert release_gradient(ctx, ALICE, step_request(run.run_id, 2)).result(10).step == 2
