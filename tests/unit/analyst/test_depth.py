"""Steps on their way at once: one update old at depth two, and as exact as at depth one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from analyst.errors import CuratorUnreachable, RecipeError
from analyst.generators.generator import draw_latents
from analyst.recipes import Recipe
from analyst.training.checkpoint import checkpoint_store, image_shape
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, resume_session, run_session
from analyst.training.state import TrainingState, new_state
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error

MakeRecipe = Callable[..., Recipe]
MakeStop = Callable[..., Any]


@pytest.fixture
def recipe(small_recipe: MakeRecipe) -> Recipe:
    return small_recipe(training__depth=2, optimizer__decay="cosine")


def digest(images: Tensor) -> str:
    return hashlib.sha256(images.detach().contiguous().numpy().tobytes()).hexdigest()


def made(state: TrainingState, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Draw the next batch of a state, with its graph."""
    labels = recipe.mechanism.draw_labels(state.model.num_classes, state.randomness)
    latents = draw_latents(
        state.model.latent, len(labels), state.model.latent_dim, state.randomness
    )
    return state.model(latents, labels), labels


def tensors(out: Path) -> dict[str, Tensor]:
    return checkpoint_store(out).load()[0]


def test_a_gradient_is_of_images_that_are_one_update_old(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    """The same by hand: two batches of the first weights, the third of those after one update."""
    barrier = FakeBarrier()
    run_session(barrier, recipe, SessionOptions(out=tmp_path), progress, make_stop(after=1))
    sent = tensors(tmp_path)["sent.0.images_NCHW"]

    state = new_state(recipe, image_shape(FakeDataset().image()))
    first, labels = made(state, recipe)
    second, _ = made(state, recipe)
    assert [one for _, one in barrier.asked] == [digest(first)]
    assert digest(sent) == digest(second)
    run = FakeBarrier().open_run("digits", "counting", {}, num_steps=12)
    torch.autograd.backward([first], [run.gradient(first.detach(), labels)])
    state.optimizer.step()
    third, _ = made(state, recipe)

    result = resume_session(barrier, {}, SessionOptions(out=tmp_path), progress, make_stop(after=1))
    assert result.num_updates == 2
    assert digest(tensors(tmp_path)["sent.0.images_NCHW"]) == digest(third)


def test_as_many_steps_as_declared_are_taken_in_order(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier = FakeBarrier()
    result = run_session(barrier, recipe, SessionOptions(out=tmp_path), progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    assert [step for step, _ in barrier.asked] == list(range(1, 13))
    assert barrier.accounts["run-0"].used == 12
    assert not [name for name in tensors(tmp_path) if name.startswith("sent.")]


@pytest.mark.parametrize("depth", [2, 5])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop, depth: int
) -> None:
    recipe = small_recipe(training__depth=depth, optimizer__decay="cosine")
    whole = SessionOptions(out=tmp_path / "whole")
    run_session(FakeBarrier(), recipe, whole, progress, make_stop())

    barrier, parts = FakeBarrier(), SessionOptions(out=tmp_path / "parts")
    run_session(barrier, recipe, parts, progress, make_stop(after=5))
    assert checkpoint_store(parts.out).load()[1].next_step == 6
    assert barrier.accounts["run-0"].used == 4 + depth  # sent, charged, and not read
    resume_session(barrier, {}, parts, progress, make_stop(after=2))
    result = resume_session(barrier, {}, parts, progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    assert [step for step, _ in barrier.asked] == list(range(1, 13))

    expected, actual = tensors(whole.out), tensors(parts.out)
    assert expected.keys() == actual.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, actual[name]), name


def test_after_a_kill_answers_that_are_kept_are_had_again(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    whole, options = SessionOptions(out=tmp_path / "whole"), SessionOptions(out=tmp_path / "killed")
    run_session(FakeBarrier(), recipe, whole, progress, make_stop())
    barrier = FakeBarrier()

    def die(run: FakeRun) -> None:
        if run.next_step == 7:
            raise KeyboardInterrupt  # like a kill: no checkpoint is written

    barrier.before_gradient = die
    with pytest.raises(KeyboardInterrupt):
        run_session(barrier, recipe, options, progress, make_stop())
    barrier.before_gradient = lambda run: None
    result = resume_session(barrier, {}, options, progress, make_stop())
    assert (result.outcome, result.num_updates) == (Outcome.COMPLETED, 12)
    expected, actual = tensors(whole.out), tensors(options.out)
    assert all(torch.equal(tensor, actual[name]) for name, tensor in expected.items())


def test_a_lost_curator_leaves_a_checkpoint_that_asks_the_same_again(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    recipe = small_recipe(training__depth=2, session__retry_for_s=0.0)
    barrier, options = FakeBarrier(), SessionOptions(out=tmp_path / "a")

    def fail(run: FakeRun) -> None:
        if run.next_step == 6:
            raise make_error(CuratorUnreachable)

    barrier.before_gradient = fail
    with pytest.raises(CuratorUnreachable):
        run_session(barrier, recipe, options, progress, make_stop())
    barrier.before_gradient = lambda run: None
    resume_session(barrier, {}, options, progress, make_stop())
    calm = FakeBarrier()
    run_session(calm, recipe, SessionOptions(out=tmp_path / "b"), progress, make_stop())
    assert barrier.asked == calm.asked


def test_a_curator_that_forgot_the_answers_gets_the_same_images_as_its_next_step(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier, options = FakeBarrier(), SessionOptions(out=tmp_path)
    run_session(barrier, recipe, options, progress, make_stop(after=4))
    sent = digest(tensors(tmp_path)["sent.0.images_NCHW"])

    def forget(run: FakeRun) -> None:  # as the client does: the ledger names the next step
        run.next_step = max(run.next_step, 9)

    barrier.before_gradient = forget
    result = resume_session(barrier, {}, options, progress, make_stop())
    assert barrier.asked[4] == (9, sent)
    assert result.outcome is Outcome.COMPLETED
    assert result.num_updates == 4 + 4
    assert barrier.accounts["run-0"].used == 12


def test_a_release_that_was_downloaded_has_no_depth(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    options = SessionOptions(out=tmp_path, is_offline=True)
    with pytest.raises(RecipeError, match=r"training\.depth=1"):
        run_session(FakeBarrier(), recipe, options, progress, make_stop())


def test_the_depth_of_a_run_is_fixed(
    tmp_path: Path, recipe: Recipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier, options = FakeBarrier(), SessionOptions(out=tmp_path)
    run_session(barrier, recipe, options, progress, make_stop(after=2))
    with pytest.raises(RecipeError, match="training"):
        resume_session(barrier, {"training.depth": 1}, options, progress, make_stop())
