"""All open runs together have so much room for their states: by what they declare, not by use."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from curator.errors import TooMuchState
from curator.ledger.memory import MemoryLedger
from curator.mechanisms.catalogue import read_specification
from curator.service.answer_step import release_gradient
from curator.service.caller import Caller, Role
from curator.service.checks import run_bytes
from curator.service.end_runs import close_run
from curator.service.service import Service
from tests.fakes.curator import (
    ALICE,
    BOB,
    CRITICS,
    SmallLimits,
    memory_ledger,
    opened,
    service,
    step_request,
)

CAROL = Caller("carol", Role.ANALYST)


def size() -> int:
    """Return the bytes of one run with critics."""
    spec = read_specification("gs-wgan-mean", json.dumps(CRITICS))
    return run_bytes(spec, service().runs.datasets.facts("small").space)


def roomy(num_runs: float, ledger: MemoryLedger | None = None, holder: str = "first") -> Service:
    ctx = service(ledger, holder=holder)
    return replace(ctx, limits=SmallLimits(state_bytes=int(num_runs * size())))


def test_a_run_counts_from_its_opening_whoever_opened_it_until_it_ends() -> None:
    ctx = roomy(2.5)
    first = opened(ctx, "gs-wgan-mean")
    opened(ctx, "gs-wgan-round-robin", caller=BOB, key="b" * 16)
    entries = ctx.runs.ledger.head()
    with pytest.raises(TooMuchState) as caught:
        opened(ctx, "gs-wgan-mean", key="c" * 16, caller=CAROL)
    assert caught.value.detail == (
        "this run would need 1 MiB; all open runs of all analysts together may have 0 MiB"
    )
    assert ctx.runs.ledger.head() == entries  # nothing was charged or reserved
    assert opened(ctx, "gs-wgan-mean").run_id == first.run_id  # asked again, it is there
    close_run(ctx.runs, ALICE, first.run_id)
    opened(ctx, "gs-wgan-mean", key="c" * 16, caller=CAROL)


def test_one_analyst_has_half_of_the_room_and_cannot_refuse_all_others() -> None:
    ctx = roomy(4.5)
    first = opened(ctx, "gs-wgan-mean")
    opened(ctx, "gs-wgan-mean", key="b" * 16)
    answers = []
    for others in (False, True):
        if others:
            opened(ctx, "gs-wgan-mean", key="c" * 16, caller=BOB)
            opened(ctx, "gs-wgan-mean", key="d" * 16, caller=BOB)
        with pytest.raises(TooMuchState, match="your open runs have 1 MiB") as caught:
            opened(ctx, "gs-wgan-mean", key="e" * 16)
        answers.append(caught.value.detail)
    assert answers[0] == answers[1]  # it says nothing of what others have
    close_run(ctx.runs, ALICE, first.run_id)
    opened(ctx, "gs-wgan-mean", key="e" * 16)


def test_runs_that_keep_nothing_take_no_room() -> None:
    ctx = roomy(2.0)
    opened(ctx, "gs-wgan-mean")
    opened(ctx, "dp-sinkhorn", key="b" * 16)
    with pytest.raises(TooMuchState):
        opened(ctx, "mean-embedding", key="c" * 16)
    with pytest.raises(TooMuchState):
        opened(ctx, "gs-wgan-mean", key="d" * 16)


def test_a_run_larger_than_half_of_the_room_is_refused() -> None:
    with pytest.raises(TooMuchState):
        opened(roomy(1.99), "gs-wgan-mean")
    opened(roomy(2.01), "gs-wgan-mean")


def test_runs_of_a_process_before_count_before_they_are_asked() -> None:
    ledger = memory_ledger()
    opened(roomy(2.5, ledger), "gs-wgan-mean")
    with pytest.raises(TooMuchState):
        opened(roomy(2.5, ledger, "second"), "gs-wgan-mean", key="b" * 16)


def test_whether_a_run_was_used_makes_no_difference() -> None:
    """The refusal depends on declarations alone, so it says nothing about the records."""
    answers = []
    for steps in (0, 2):
        ctx = roomy(2.5)
        run = opened(ctx, "gs-wgan-mean")
        opened(ctx, "gs-wgan-mean", key="c" * 16, caller=CAROL)
        for step in range(1, steps + 1):
            release_gradient(ctx, ALICE, step_request(run.run_id, step)).result(20)
        with pytest.raises(TooMuchState) as caught:
            opened(ctx, "gs-wgan-mean", key="b" * 16, caller=BOB)
        answers.append(caught.value.detail)
    assert answers[0] == answers[1]
