"""A map follows gradients in the ledger's order; a failed step leaves no trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from analyst.errors import CuratorUnreachable, RecipeError, StepLost
from analyst.generators.generator import ImageShape
from analyst.teacher.classifier import LARGEST_WEIGHT, new_teacher
from analyst.teacher.recipe import TEACHERS, TeacherRecipe
from analyst.teacher.session import (
    TeacherOptions,
    TeacherState,
    _class_means,
    follow,
    resume_teacher,
    start_teacher,
)
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from tests.fakes.adaptation import Stop, StopAfter, Watch, write_digits
from tests.fakes.barrier import FakeBarrier, make_error

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


def _nothing(_: FakeRun) -> None:
    return


class FakeRun:
    """Pulls every weight to one, and does what it is told at a step."""

    run_id = "r"
    spent_epsilon, budget_epsilon = 1.0, 10.0

    def __init__(self, num_steps: int = 6) -> None:
        self.num_steps, self.next_step = num_steps, 1
        self.asked: list[tuple[int, Tensor]] = []
        self.trouble: dict[int, Callable[[FakeRun], None]] = {}

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        self.asked.append((self.next_step, features.clone()))
        self.trouble.pop(self.next_step, _nothing)(self)
        self.next_step += 1
        return 100 * (features - 1)

    def close(self) -> None:
        return


def recipe(**changes: Any) -> TeacherRecipe:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return TEACHERS.load("linear-teacher-digits", named)


def begun(**changes: Any) -> tuple[TeacherState, TeacherRecipe]:
    made = recipe(**changes)
    return TeacherState.of(new_teacher(made, SHAPE)[0], made), made


def test_the_map_moves_by_the_learning_rate_along_each_gradient() -> None:
    state, made = begun(descent__lr=0.5, descent__momentum=0.0, training__ema_decay=0.0)
    run, watch = FakeRun(3), Watch()
    assert follow(state, run, made, observer=watch, stop=Stop()) is Outcome.COMPLETED
    maps = [sent for _, sent in run.asked] + [state.model.linear.weight.detach()]
    for before, after in pairwise(maps):
        assert float((after - before).norm()) == pytest.approx(0.5, rel=1e-4)
        assert float((after - 1).norm()) < float((before - 1).norm())
    assert [one.step for one in watch.updates] == [1, 2, 3]
    assert torch.equal(state.ema.weights["weight"], maps[-1])


def test_momentum_and_a_cosine_are_applied() -> None:
    state, made = begun(descent__lr=0.5, descent__momentum=0.5, descent__decay="cosine")
    run, watch = FakeRun(4), Watch()
    follow(state, run, made, observer=watch, stop=Stop())
    first, second = (run.asked[at + 1][1] - run.asked[at][1] for at in (0, 1))
    rates = [one.learning_rate for one in watch.updates]
    assert rates[0] == 0.5
    assert rates == sorted(rates, reverse=True)
    assert float(first.norm()) == pytest.approx(0.5, rel=1e-4)
    assert float(second.norm()) == pytest.approx(1.5 * rates[1], rel=1e-4)


def test_weights_stay_within_what_the_curator_takes() -> None:
    state, made = begun(descent__lr=1e6)
    follow(state, FakeRun(2), made, observer=Watch(), stop=Stop())
    assert float(state.model.linear.weight.detach().abs().max()) <= LARGEST_WEIGHT


def test_a_lost_step_is_skipped_and_a_failed_one_leaves_no_trace() -> None:
    def lost(run: FakeRun) -> None:
        run.next_step += 1
        raise make_error(StepLost)

    def down(run: FakeRun) -> None:
        raise make_error(CuratorUnreachable)

    state, made = begun(session__retry_for_s=0.0)
    run, watch = FakeRun(6), Watch()
    run.trouble = {2: lost, 4: down}
    with pytest.raises(CuratorUnreachable):
        follow(state, run, made, observer=watch, stop=Stop())
    assert watch.lost == [(2, 2)]
    assert [one.step for one in watch.updates] == [1, 3]
    kept = state.tensors()
    again, _ = begun(session__retry_for_s=0.0)
    again.load(kept)
    follow(again, run, made, observer=watch, stop=Stop())
    assert [step for step, _ in run.asked] == [1, 2, 3, 4, 4, 5, 6]
    assert torch.equal(run.asked[3][1], run.asked[4][1])
    assert run.next_step == 7


def test_class_sums_are_added_and_the_map_stays() -> None:
    state, made = begun(mechanism__asks="class-sums", mechanism__clip_norm=1.0)
    run, watch = FakeRun(2), Watch()
    assert follow(state, run, made, observer=watch, stop=Stop()) is Outcome.COMPLETED
    assert all(sent.count_nonzero() == 0 for _, sent in run.asked)
    assert state.moved_KF.shape == (10, 2 * 65 + 1)
    assert bool((state.moved_KF == -200).all())  # two answers
    assert state.model.linear.weight.count_nonzero() == 0
    assert state.num_updates == 2


def test_a_small_class_is_not_blown_up() -> None:
    sums = torch.tensor([[30.0, 60.0, 30.0], [3.0, 0.5, 0.1]])
    means = _class_means(sums, 2.0)
    torch.testing.assert_close(means, torch.tensor([[1.0, 2.0], [0.75, 0.125]]))


def test_a_stop_is_heard_between_steps() -> None:
    state, made = begun()
    run, stop = FakeRun(6), Stop()
    run.trouble = {3: lambda _: setattr(stop, "asked", True)}
    assert follow(state, run, made, observer=Watch(), stop=stop) is Outcome.STOPPED
    assert run.next_step == 4


@pytest.mark.parametrize(
    ("changes", "has_source", "words"),
    [
        ({}, True, "makes 0 passes"),
        ({"source__epochs": 3}, False, "makes 3 passes"),
        (
            {"mechanism__features": "lenet-features", "mechanism__num_features": 4},
            True,
            "makes 0 passes",
        ),
    ],
)
def test_a_source_and_a_recipe_that_do_not_go_together_are_refused_and_free(
    tmp_path: Path, changes: dict[str, Any], has_source: bool, words: str
) -> None:
    barrier = FakeBarrier()
    source = write_digits(tmp_path / "source.npz", 50) if has_source else None
    options = TeacherOptions(
        out=tmp_path / "run", source=source, progress=Progress(io.StringIO()), stop=Stop()
    )
    with pytest.raises(RecipeError, match=words):
        start_teacher(barrier, recipe(**changes), options)
    assert barrier.opened == []


def test_a_source_that_was_not_learned_is_noticed_before_a_run_is_opened(tmp_path: Path) -> None:
    """A curator would refuse such weights, step by step, in words about messages."""
    barrier = FakeBarrier()
    options = TeacherOptions(
        out=tmp_path / "run",
        source=write_digits(tmp_path / "source.npz", 50),
        progress=Progress(io.StringIO()),
        stop=Stop(),
    )
    with pytest.raises(RecipeError, match=r"did not converge.*source.lr"):
        start_teacher(barrier, recipe(source__epochs=3, source__lr=1e4), options)
    assert barrier.opened == []


def test_sums_whose_answers_were_lost_are_asked_again(tmp_path: Path) -> None:
    """The process ends after an answer came and before it was kept."""
    barrier = FakeBarrier(noise_std=0.25)
    made = recipe(
        mechanism__asks="class-sums", mechanism__clip_norm=1.0, training__steps=3,
        session__checkpoint_every=2, source__epochs=0,
    )  # fmt: skip
    options = TeacherOptions(
        out=tmp_path / "run", source=None, progress=Progress(io.StringIO()), stop=StopAfter(2)
    )
    assert start_teacher(barrier, made, options) is Outcome.STOPPED
    run = barrier.resume_run("run-0")
    run.feature_gradient(torch.zeros(10, 131), b"")  # charged, and read by nobody
    options = replace(options, stop=Stop())
    assert resume_teacher(barrier, options) is Outcome.COMPLETED
    tensors, manifest = checkpoint_store(tmp_path / "run").load()
    assert (manifest.num_updates, barrier.accounts["run-0"].used) == (3, 3)
    assert torch.equal(tensors["moved"], torch.full((10, 131), -0.75))
    assert [step for step, _ in barrier.asked] == [1, 2, 3, 3]
