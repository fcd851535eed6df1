"""Training against a fake barrier: convergence, resume, loss of steps, loss of the curator."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from analyst.cli import ExitCode, main
from analyst.errors import CheckpointError, CuratorUnreachable, RecipeError, RunClosed, StepLost
from analyst.facts import Share
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome, train
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, resume_session, run_session
from analyst.training.state import learning_rate, new_state
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error, templates

MakeRecipe = Callable[..., Recipe]
MakeStop = Callable[..., Any]


def _metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def _kinds(out: Path) -> list[str]:
    return [line["kind"] for line in _metrics(out) if line["kind"] != "update"]


def test_training_converges_to_the_templates(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier(FakeDataset(epsilon=1000.0))
    recipe = small_recipe(
        training__steps=300, session__checkpoint_every=1000, session__sample_every=1000
    )
    options = SessionOptions(out=tmp_path)
    result = run_session(barrier, recipe, options, progress, make_stop())
    assert result.outcome is Outcome.COMPLETED
    norms = [line["gradient_norm"] for line in _metrics(tmp_path) if line["kind"] == "update"]
    assert norms[-1] < 0.35 * norms[0]
    first, last = sorted((tmp_path / "samples").iterdir())
    assert (first.name, last.name) == ("step-00000000.png", "step-00000300.png")
    assert first.read_bytes() != last.read_bytes()
    assert barrier.accounts["run-0"].closed
    assert templates(barrier.dataset).shape == (10, 1, 8, 8)


def test_codes_are_trained_without_grids(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    screen: io.StringIO,
    progress: Progress,
    make_stop: MakeStop,
) -> None:
    barrier = FakeBarrier(FakeDataset(channels=32, height=4, width=4))
    recipe = small_recipe(training__steps=2, session__sample_every=1)
    result = run_session(barrier, recipe, SessionOptions(out=tmp_path), progress, make_stop())
    assert result.outcome is Outcome.COMPLETED
    assert not (tmp_path / "samples").exists()
    assert "no sample grids: images of 32 channels" in screen.getvalue()
    code = main(["sample", "--out-of", str(tmp_path), "--count", "10", "--out", "codes.png"])
    assert code == ExitCode.FILES


def test_what_all_steps_cost_is_told_before_the_first(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    screen: io.StringIO,
    progress: Progress,
    make_stop: MakeStop,
) -> None:
    barrier = FakeBarrier(FakeDataset(epsilon=6.0))
    barrier.share = Share(epsilon=9.0, spent=0.0, reserved=6.0, remaining=3.0)
    told: list[str] = []

    def note(_: FakeRun) -> None:
        told.append(screen.getvalue())

    barrier.before_gradient = note
    options = SessionOptions(out=tmp_path)
    run_session(barrier, small_recipe(training__steps="all"), options, progress, make_stop())
    first, *later = told[0].splitlines()
    assert first.startswith("steps = 'all' is 6 steps, all that budget, share and policy afford")
    assert "epsilon 6.0000 in total afterwards" in first
    assert later[0].startswith("opened run run-0")
    assert "epsilon 6.0000 of 6 with all open runs, 6.0000 of your share of 9" in later[1]
    assert "(your share: 9)" in told[1].splitlines()[-1]


def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    recipe = small_recipe(optimizer__decay="cosine")
    whole = SessionOptions(out=tmp_path / "whole")
    run_session(FakeBarrier(), recipe, whole, progress, make_stop())

    barrier, parts = FakeBarrier(), SessionOptions(out=tmp_path / "parts")
    result = run_session(barrier, recipe, parts, progress, make_stop(after=5))
    assert (result.outcome, result.num_updates) == (Outcome.STOPPED, 5)
    resume_session(barrier, {}, parts, progress, make_stop(after=2))
    result = resume_session(barrier, {}, parts, progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)

    expected, manifest = checkpoint_store(whole.out).load()
    actual, _ = checkpoint_store(parts.out).load()
    assert manifest.finished
    assert expected.keys() == actual.keys()
    assert {name.partition(".")[0] for name in expected} == {
        "generator",
        "ema",
        "optimizer",
        "randomness",
    }
    for name, tensor in expected.items():
        assert torch.equal(tensor, actual[name]), name


def test_after_a_kill_the_ledger_says_where_to_go_on(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    progress: Progress,
    make_stop: MakeStop,
    screen: io.StringIO,
) -> None:
    barrier, options = FakeBarrier(), SessionOptions(out=tmp_path)

    def die(run: FakeRun) -> None:
        if run.next_step == 7:
            raise KeyboardInterrupt  # like a kill: no checkpoint is written

    barrier.before_gradient = die
    with pytest.raises(KeyboardInterrupt):
        run_session(barrier, small_recipe(), options, progress, make_stop())
    barrier.before_gradient = lambda run: None
    result = resume_session(barrier, {}, options, progress, make_stop())
    # the checkpoint was made after update 4; steps 5 and 6 were charged and are gone
    assert result.num_updates == 10
    assert result.outcome is Outcome.COMPLETED
    assert [step for step, _ in barrier.asked] == list(range(1, 13))
    assert "steps 5 to 6 were charged" in screen.getvalue()
    assert _kinds(tmp_path) == ["opened", "resumed", "skipped", "completed"]


def test_a_lost_step_is_skipped(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier()

    def lose(run: FakeRun) -> None:
        if run.next_step == 3:
            run.next_step = 6
            raise make_error(StepLost)

    barrier.before_gradient = lose
    options = SessionOptions(out=tmp_path)
    result = run_session(barrier, small_recipe(), options, progress, make_stop())
    assert result.num_updates == 9
    (skipped,) = [line for line in _metrics(tmp_path) if line["kind"] == "skipped"]
    assert (skipped["first"], skipped["last"]) == (3, 5)


def test_a_run_whose_last_steps_are_lost_is_complete(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier()

    def close(run: FakeRun) -> None:
        if run.next_step == 11:
            run.next_step = 13
            raise make_error(RunClosed)

    barrier.before_gradient = close
    options = SessionOptions(out=tmp_path)
    result = run_session(barrier, small_recipe(), options, progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 10)


def test_a_failure_of_the_machine_loses_no_update(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier, options = FakeBarrier(), SessionOptions(out=tmp_path)
    recipe = small_recipe(session__checkpoint_every=100)

    def no_memory(run: FakeRun) -> None:
        if run.next_step == 7:
            raise MemoryError

    barrier.before_gradient = no_memory
    with pytest.raises(MemoryError):
        run_session(barrier, recipe, options, progress, make_stop())
    assert checkpoint_store(tmp_path).load()[1].num_updates == 6
    assert _kinds(tmp_path) == ["opened", "failed"]
    barrier.before_gradient = lambda run: None
    result = resume_session(barrier, {}, options, progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)


def test_a_second_failure_does_not_hide_the_first(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    screen: io.StringIO,
    make_stop: MakeStop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barrier = FakeBarrier()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def break_it(run: FakeRun) -> None:
        monkeypatch.setattr("analyst.training.checkpoint.CheckpointStore.save", full_disk)
        raise MemoryError

    barrier.before_gradient = break_it
    with pytest.raises(MemoryError):
        run_session(
            barrier, small_recipe(), SessionOptions(out=tmp_path), Progress(screen), make_stop()
        )
    assert "no checkpoint could be saved (OSError); the last one is whole" in screen.getvalue()
    assert checkpoint_store(tmp_path).load()[1].num_updates == 0


def test_a_lost_step_that_does_not_advance_is_an_error(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier()

    def lose(run: FakeRun) -> None:
        raise make_error(StepLost)

    barrier.before_gradient = lose
    with pytest.raises(StepLost):
        run_session(barrier, small_recipe(), SessionOptions(out=tmp_path), progress, make_stop())


def test_a_curator_that_returns_in_time_gets_the_same_images(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier, stop, failures = FakeBarrier(), make_stop(), [1, 1, 1]

    def fail(run: FakeRun) -> None:
        if run.next_step == 3 and failures:
            failures.pop()
            raise make_error(CuratorUnreachable)

    barrier.before_gradient = fail
    options = SessionOptions(out=tmp_path / "a")
    run_session(barrier, small_recipe(), options, progress, stop)
    calm = FakeBarrier()
    options = SessionOptions(out=tmp_path / "b")
    run_session(calm, small_recipe(), options, progress, make_stop())
    assert [round(seconds, 1) for seconds in stop.slept] == [0.5, 1.0, 2.0]
    assert barrier.asked == calm.asked


def test_a_lost_curator_leaves_a_checkpoint_that_asks_the_same_again(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier()

    def fail(run: FakeRun) -> None:
        if run.next_step == 6:
            raise make_error(CuratorUnreachable)

    barrier.before_gradient = fail
    recipe, options = small_recipe(session__retry_for_s=0.0), SessionOptions(out=tmp_path / "a")
    with pytest.raises(CuratorUnreachable):
        run_session(barrier, recipe, options, progress, make_stop())
    assert checkpoint_store(options.out).load()[1].num_updates == 5
    barrier.before_gradient = lambda run: None
    resume_session(barrier, {}, options, progress, make_stop())
    calm = FakeBarrier()
    run_session(calm, recipe, SessionOptions(out=tmp_path / "b"), progress, make_stop())
    assert barrier.asked == calm.asked


def test_start_from_takes_the_averaged_weights(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run_session(FakeBarrier(), small_recipe(), SessionOptions(out=first), progress, make_stop())
    options = SessionOptions(out=second, start_from=first)
    run_session(FakeBarrier(), small_recipe(), options, progress, make_stop(after=0))
    before, after = checkpoint_store(first).load()[0], checkpoint_store(second).load()[0]
    for name in before:
        if name.startswith("ema."):
            assert torch.equal(before[name], after[name])
            assert torch.equal(before[name], after[name.replace("ema.", "generator.")])
    wide = small_recipe(generator__width=17)
    options = SessionOptions(out=tmp_path / "third", start_from=first)
    with pytest.raises(RecipeError, match="not the one of this recipe"):
        run_session(FakeBarrier(), wide, options, progress, make_stop())


def test_all_steps_are_those_that_the_plan_affords(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier(FakeDataset(epsilon=9.0))
    recipe = small_recipe(training__steps="all")
    run_session(barrier, recipe, SessionOptions(out=tmp_path), progress, make_stop())
    assert barrier.accounts["run-0"].used == 9


def test_an_output_directory_holds_one_run(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    options = SessionOptions(out=tmp_path)
    run_session(FakeBarrier(), small_recipe(), options, progress, make_stop())
    with pytest.raises(CheckpointError, match="already holds a run"):
        run_session(FakeBarrier(), small_recipe(), options, progress, make_stop())
    again = resume_session(FakeBarrier(), {}, options, progress, make_stop())
    assert again.outcome is Outcome.COMPLETED


def test_cosine_falls_over_the_declared_steps(small_recipe: MakeRecipe) -> None:
    config = small_recipe(optimizer__decay="cosine", optimizer__lr=1.0).optimizer
    rates = [learning_rate(config, step, 4) for step in range(1, 5)]
    assert rates == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-5)


class WaitingRun(FakeRun):
    """As the client's: what is to be done meanwhile is done when a step has been sent."""

    while_waiting: Callable[[], None]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.while_waiting = lambda: None

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        self.while_waiting()
        return super().gradient(images, labels)


class WaitingBarrier(FakeBarrier):
    def open_run(self, *arguments: Any, **named: Any) -> FakeRun:
        return WaitingRun(self, super().open_run(*arguments, **named).run_id)


@pytest.mark.parametrize("every", [1, 3])
def test_what_is_done_while_an_answer_is_waited_for_changes_nothing(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop, every: int
) -> None:
    recipe = small_recipe(training__ema_decay=0.9, session__checkpoint_every=every)
    saved = []
    for barrier in (FakeBarrier(), WaitingBarrier()):
        out = tmp_path / type(barrier).__name__
        run_session(barrier, recipe, SessionOptions(out=out), progress, make_stop(after=6))
        saved.append(checkpoint_store(out).load()[0])
    assert saved[0].keys() == saved[1].keys()
    assert all(torch.equal(value, saved[1][name]) for name, value in saved[0].items())


@pytest.mark.parametrize("ends", [False, True])
def test_a_run_that_is_trained_no_more_does_nothing_while_it_waits(
    small_recipe: MakeRecipe, make_stop: MakeStop, ends: bool
) -> None:
    recipe = small_recipe()
    barrier = WaitingBarrier()
    run = cast("WaitingRun", barrier.open_run("digits", "m", {}, num_steps=9))
    nothing = run.while_waiting
    observer: Any = SimpleNamespace(updated=lambda _: None, skipped=lambda *_: None)
    seen: list[Callable[[], None]] = []

    def note(_: FakeRun) -> None:
        seen.append(run.while_waiting)
        if ends:
            raise StepLost("STEP_LOST", "lost")

    barrier.before_gradient = note
    state = new_state(recipe, ImageShape(channels=1, height=8, width=8, num_classes=10))
    with pytest.raises(StepLost) if ends else nullcontext():
        train(state, run, recipe, observer=observer, stop=make_stop(after=2))
    assert nothing not in seen
    assert run.while_waiting is nothing
