"""What one analyst's runs keep together is bounded, and what is let go stays charged."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pytest

from curator.errors import StepLost
from curator.service.answer_step import release_gradient
from curator.service.live_run import AnswerCache, LiveRun
from curator.service.service import Service
from tests.fakes.curator import ALICE, BOB, opened, service, step_request

ROWS = 4
ONE = 3 * ROWS * 4 * 4  # bytes that a claim of so many rows of four pixels counts as


def runs(ctx: Service, number: int) -> list[LiveRun]:
    return [
        ctx.runs.live[
            opened(
                ctx, "mean-embedding", key=f"key-of-a-run-{place:04}", noise_multiplier=9.0
            ).run_id
        ]
        for place in range(number)
    ]


def bounded(claims: int) -> Service:
    ctx = service()
    object.__setattr__(ctx.runs, "kept", AnswerCache(claims * ONE))
    return ctx


def step(ctx: Service, live: LiveRun, number: int) -> Any:
    return release_gradient(ctx, ALICE, step_request(live.run_id, number, rows=ROWS)).result(20)


def test_the_oldest_answers_of_all_runs_are_let_go_and_stay_charged() -> None:
    ctx = bounded(3)
    lives = runs(ctx, 4)
    for live in lives:
        step(ctx, live, 1)
    assert [list(live.claims) for live in lives] == [[], [1], [1], [1]]
    used = ctx.runs.ledger.run(lives[0].run_id).used
    with pytest.raises(StepLost):
        step(ctx, lives[0], 1)
    assert (lives[0].used, ctx.runs.ledger.run(lives[0].run_id).used) == (1, used)
    step(ctx, lives[0], 2)
    assert [list(live.claims) for live in lives] == [[2], [], [1], [1]]


def test_the_newest_claim_and_those_without_an_answer_stay() -> None:
    ctx = bounded(0)
    first, second = runs(ctx, 2)
    step(ctx, first, 1)
    first.claims[1].answer = cast("Any", Future())  # not made yet
    step(ctx, second, 1)
    assert (list(first.claims), list(second.claims)) == ([1], [1])


def test_a_run_that_is_busy_is_passed_over() -> None:
    ctx = bounded(1)
    first, second = runs(ctx, 2)
    step(ctx, first, 1)
    with first.lock:
        step(ctx, second, 1)
    assert list(first.claims) == [1]
    step(ctx, second, 2)
    assert (list(first.claims), list(second.claims)) == ([], [2])


def test_another_analyst_s_answers_are_not_touched() -> None:
    ctx = bounded(1)
    (mine,) = runs(ctx, 1)
    step(ctx, mine, 1)
    theirs = opened(ctx, "mean-embedding", caller=BOB, key="b" * 16, noise_multiplier=9.0).run_id
    release_gradient(ctx, BOB, step_request(theirs, 1, rows=ROWS)).result(20)
    assert list(mine.claims) == [1]


def test_answers_that_a_run_let_go_by_itself_are_not_counted() -> None:
    ctx = bounded(20)
    (idle,) = runs(ctx, 1)
    step(ctx, idle, 1)
    run = opened(ctx, "mean-embedding", num_steps=100, key="k" * 16, noise_multiplier=9.0)
    busy = ctx.runs.live[run.run_id]
    for number in range(1, 100):
        step(ctx, busy, number)
    assert list(busy.claims) == list(range(84, 100))
    assert list(idle.claims) == [1]
