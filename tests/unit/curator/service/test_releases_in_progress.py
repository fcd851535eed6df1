"""A long setup ends between two batches, keeps nobody waiting, and is one of each analyst."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.errors import CuratorError, RunClosed, Unavailable
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.entries import StatusSet
from curator.ledger.ledger import DatasetStatus
from curator.ledger.problems import HolderLost
from curator.service import one_release
from curator.service.answer_step import release_gradient
from curator.service.caller import Caller
from curator.service.end_runs import IdleRuns, close_run
from curator.service.fair_turns import InTurn
from curator.service.find_run import resume_run
from curator.service.live_run import LiveRun
from curator.service.one_release import download_release
from curator.service.open_run import RunRequest, open_run
from curator.service.releases_in_progress import Setups
from curator.service.service import Service
from curator.service.steward_decisions import decide
from curator.state import asking
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
from tests.fakes.facts import small_facts
from tests.unit.curator.service.test_setup_batches import AUTOENCODER

SECONDS = 20.0


class Halting:
    """Records whose `halt`th batch waits until it is let go: three samples, then the records."""

    def __init__(self, halt: int) -> None:
        self.inner = PrivateRecords(small_images())
        self.halt, self.drawn = halt, 0
        self.reached, self.go = threading.Event(), threading.Event()
        self.seen: list[float] = []

    def poisson_batch(self, *arguments: Any) -> Any:
        self.wait()
        return self.inner.poisson_batch(*arguments)

    def batches(self, rows: int) -> Any:
        for batch in self.inner.batches(rows):
            self.wait()
            yield batch

    def is_whole(self) -> bool:
        return self.inner.is_whole()

    def wait(self) -> None:
        self.drawn += 1
        self.seen.append(float(torch.tensor(1.5e-38).mul_(0.25)))
        if self.drawn == self.halt:
            self.reached.set()
            assert self.go.wait(SECONDS)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def request(key: str = "a", mechanism: str = "dp-merf-ae") -> RunRequest:
    return RunRequest(
        dataset="small",
        mechanism=mechanism,
        parameters_json=json.dumps(AUTOENCODER),
        num_steps=100,
        idempotency_key=key * 16,
    )


def begin(ctx: Service, caller: Caller = ALICE, key: str = "a") -> Future[RunState]:
    """Open a run in a thread of its own, as a call would."""
    return ThreadPoolExecutor(1).submit(open_run, ctx, caller, request(key))


def halted(halt: int = 2, **parts: Any) -> tuple[Service, Halting, Future[RunState]]:
    """Return a run whose setup has come to its `halt`th batch and waits there."""
    records = Halting(halt)
    served: Any = records
    ctx = service(parts.pop("ledger", None), records=served, **parts)
    opening = begin(ctx)
    assert records.reached.wait(SECONDS)
    return ctx, records, opening


def at_once(work: Callable[[], object]) -> None:
    """Do something that must not wait for the setup."""
    ThreadPoolExecutor(1).submit(work).result(SECONDS)


def turn(ctx: Service, status: DatasetStatus) -> None:
    decide(ctx.runs, StatusSet(dataset="small", status=status, reason="test"))


def lose(ctx: Service) -> None:
    def lost() -> None:
        raise HolderLost

    object.__setattr__(ctx.runs, "check_holder", lost)


ENDS: dict[str, tuple[Callable[[Service], object], str]] = {
    "paused": (lambda ctx: turn(ctx, DatasetStatus.PAUSED), "the steward has stopped"),
    "retired": (lambda ctx: turn(ctx, DatasetStatus.RETIRED), "the steward has stopped"),
    "erased": (lambda ctx: turn(ctx, DatasetStatus.ERASED), "the steward has stopped"),
    "closed": (lambda ctx: close_run(ctx.runs, STEWARD, only(ctx).run_id), "the run was closed"),
    "given up": (lambda ctx: close_run(ctx.runs, ALICE, only(ctx).run_id), "the run was closed"),
    "stopped": (lambda ctx: ctx.runs.setups.stop(), "the curator was stopped"),
    "lost": (lose, "another curator"),
}


def only(ctx: Service) -> RunState:
    (run,) = ctx.runs.ledger.runs()
    return run


@pytest.mark.parametrize("halt", [1, 3, 4])
@pytest.mark.parametrize("name", ENDS)
def test_whatever_ends_a_setup_does_not_wait_and_nothing_is_kept(name: str, halt: int) -> None:
    ctx, records, opening = halted(halt)
    spent = ctx.runs.ledger.statement("small").spent_epsilon
    act, words = ENDS[name]
    at_once(lambda: act(ctx))
    assert not opening.done()
    records.go.set()
    with pytest.raises(RunClosed, match=words) as ended:
        opening.result(SECONDS)
    assert "stays charged" in ended.value.detail
    assert records.drawn == halt  # the batch that it was at, and no other
    run = only(ctx)
    assert (run.is_open, run.setup_digest) == (False, "")
    assert ctx.runs.ledger.setup_payload(run.run_id) is None
    assert ctx.runs.ledger.statement("small").spent_epsilon == spent > 0
    served: Any = records
    later = service(ctx.runs.ledger, records=served)
    assert not open_run(later, ALICE, request()).is_open  # the same key makes nothing again
    with pytest.raises(RunClosed, match="no release"):
        download_release(later.runs, ALICE, run.run_id)
    assert records.drawn == halt


@pytest.mark.parametrize("status", [DatasetStatus.PAUSED, DatasetStatus.ERASED])
@pytest.mark.parametrize(("passes", "drawn"), [(2.0, 1), (0.0, 4)])
def test_what_another_curator_decides_is_seen_within_a_second_or_at_the_end(
    status: DatasetStatus, passes: float, drawn: int
) -> None:
    ledger, clock = memory_ledger(), Clock()
    _, records, opening = halted(1, ledger=ledger, monotonic=clock)
    turn(service(ledger, holder="second"), status)
    clock.now += passes
    records.go.set()
    with pytest.raises(RunClosed, match=r"stopped|closed"):
        opening.result(SECONDS)
    assert records.drawn == drawn
    (run,) = ledger.runs()
    assert (run.is_open, run.setup_begun, run.setup_digest) == (False, True, "")


def test_a_decision_between_the_last_look_and_the_keeping_is_kept_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ctx, records, opening = halted(4)
    store = ctx.runs.ledger.store_setup

    def late(*given: Any) -> Any:
        turn(ctx, DatasetStatus.PAUSED)
        return store(*given)

    monkeypatch.setattr(ctx.runs.ledger, "store_setup", late)
    records.go.set()
    with pytest.raises(RunClosed, match="the steward has stopped"):
        opening.result(SECONDS)
    assert only(ctx).setup_digest == ""


class Paced:
    """Records that are passed over one by one; each batch waits until all before it are told."""

    def __init__(self, number: int, fails_at: int = -1) -> None:
        images = small_images()
        places = np.arange(number) % 5
        held = LabelledImages(levels=images.levels[places], labels=images.labels[places])
        self.inner = PrivateRecords(held, small_facts().max_size)
        self.fails_at = fails_at
        self.look: Callable[[], int | None] = lambda: None
        self.seen: list[int | None] = []

    def batches(self, rows: int) -> Any:
        assert rows == 1
        for number, batch in enumerate(self.inner.batches(rows)):
            until = time.monotonic() + SECONDS
            while self.look() != number and time.monotonic() < until:
                time.sleep(0.001)
            self.seen.append(self.look())
            if number == self.fails_at:
                raise RuntimeError
            yield batch

    def is_whole(self) -> bool:
        return self.inner.is_whole()


def paced(
    monkeypatch: pytest.MonkeyPatch, number: int, fails_at: int = -1
) -> tuple[Paced, Service, Callable[[], RunState]]:
    monkeypatch.setattr(asking, "PASS_ROWS", 1)
    monkeypatch.setattr(one_release, "LOOK_SECONDS", 0.001)
    records = Paced(number, fails_at)
    served: Any = records
    ctx = service(records=served)

    def tenths() -> int | None:
        (one,) = ctx.runs.setups.in_progress(0.0).values()
        return one.tenths

    records.look = tenths
    return records, ctx, lambda: opened(ctx, "mean-embedding")


@pytest.mark.parametrize("number", [0, 1, 5, 10])
def test_how_far_a_release_is_goes_by_the_declared_size_whatever_the_records_are(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records, ctx, make = paced(monkeypatch, number)
    with caplog.at_level(logging.INFO, "curator"):
        run = make()
    assert records.seen == list(range(10))
    told = [f"run {run.run_id}: {n} of 10 parts of its release are done" for n in range(1, 11)]
    assert caplog.messages in (told, told[:-1])  # the last one where there was time for it
    assert ctx.runs.setups.in_progress(0.0) == {}


def test_a_release_that_fails_is_in_progress_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records, ctx, make = paced(monkeypatch, 5, fails_at=7)
    with caplog.at_level(logging.INFO, "curator"), pytest.raises(CuratorError):
        make()
    assert records.seen == list(range(8))
    assert [int(message.split()[2]) for message in caplog.messages] == list(range(1, 8))
    assert ctx.runs.setups.in_progress(0.0) == {}


def test_no_batch_decides_when_something_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock does, in a thread of its own: what a batch changes is seen at the next look."""
    _, _, make = paced(monkeypatch, 5)
    with caplog.at_level(logging.INFO, "curator"):
        make()
    assert {record.threadName for record in caplog.records} == {"progress"}
    setups, live = Setups(), cast("LiveRun", SimpleNamespace(run_id="r", analyst="a"))
    setups.begin(live, 0.0)
    for done, shown in ((4, 0), (9, 0)):
        setups.note(live, done, 20)
        assert setups.in_progress(1.0)["r"].tenths == shown
    assert setups.look(live) == 4
    assert setups.look(live) is None
    setups.note(live, 11, 20)
    assert setups.in_progress(1.0)["r"].tenths == 4
    assert setups.look(live) == 5
    setups.finish(live)
    assert setups.look(live) is None


def test_a_setup_is_not_idle_and_neither_is_its_run_after_it() -> None:
    clock = Clock()
    ctx, records, opening = halted(monotonic=clock)
    idle_runs = IdleRuns(ctx.runs, 100.0)
    clock.now += 1000.0
    at_once(idle_runs.end)
    records.go.set()
    run = opening.result(SECONDS)
    idle_runs.end()
    assert ctx.runs.ledger.run(run.run_id).is_open
    clock.now += 100.0
    idle_runs.end()
    assert not ctx.runs.ledger.run(run.run_id).is_open


def test_steps_twins_and_questions_wait_and_a_download_is_told_to_ask_again() -> None:
    ctx, records, opening = halted()
    run_id = only(ctx).run_id
    with pytest.raises(Unavailable, match="still being made"):
        download_release(ctx.runs, ALICE, run_id)
    twin = begin(ctx)
    step = ThreadPoolExecutor(1).submit(release_gradient, ctx, ALICE, step_request(run_id, 1))
    asked = ThreadPoolExecutor(1).submit(resume_run, ctx.runs, ALICE, run_id)
    records.go.set()
    assert opening.result(SECONDS).run_id == twin.result(SECONDS).run_id == run_id
    assert step.result(SECONDS).result(SECONDS).step == 1
    assert asked.result(SECONDS)[1] in {1, 2}
    assert records.drawn == 4
    download_release(ctx.runs, ALICE, run_id)


def test_a_second_one_of_the_same_analyst_is_refused_for_now_and_free() -> None:
    ctx, records, opening = halted()
    before = ctx.runs.ledger.head()
    with pytest.raises(Unavailable, match="ask again when it is ready, or close that run"):
        open_run(ctx, ALICE, request("b"))
    assert ctx.runs.ledger.head() == before
    begin(ctx, BOB, "b").result(SECONDS)  # another analyst is not kept waiting
    records.go.set()
    opening.result(SECONDS)
    assert open_run(ctx, ALICE, request("c")).is_open


def test_setups_take_turns_where_tiny_numbers_take_no_longer() -> None:
    records: Any = Halting(2)
    ctx = service(records=records, preparing=InTurn(1))
    first = begin(ctx)
    assert records.reached.wait(SECONDS)
    waiting = begin(ctx, BOB, "b")
    while not any(live.analyst == "bob" for live in list(ctx.runs.live.values())):
        assert not waiting.done()
    (theirs,) = ctx.runs.ledger.runs(analyst="bob")
    assert not theirs.setup_begun  # charged when its turn comes
    at_once(lambda: close_run(ctx.runs, BOB, theirs.run_id))
    records.go.set()
    first.result(SECONDS)
    with pytest.raises(RunClosed, match="nothing was charged"):
        waiting.result(SECONDS)
    assert ctx.runs.ledger.run(theirs.run_id).spent.is_zero
    assert (records.drawn, set(records.seen)) == (4, {0.0})


def test_a_curator_that_takes_no_more_work_charges_nothing() -> None:
    places = InTurn(1)
    places.shutdown()
    ctx = service(preparing=places)
    with pytest.raises(Unavailable):
        open_run(ctx, ALICE, request())
    assert not only(ctx).is_open
    assert ctx.runs.ledger.statement("small").reserved_epsilon == 0.0
