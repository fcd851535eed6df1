"""A guide's gradient is added to a run's, and costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.errors import RecipeError
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.guided import Guide, GuidedRun
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, resume_session, run_session
from tests.fakes.barrier import FakeBarrier, FakeDataset

MakeRecipe = Callable[..., Recipe]
MakeStop = Callable[..., Any]
SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


WEIGHT = torch.randn((10, 64), generator=torch.Generator().manual_seed(3))


def guide(run_id: str = "taught", shape: ImageShape = SHAPE) -> Guide:
    """Return a guide that sees classes by a random linear map."""

    def gradient(images: Tensor, labels: Tensor) -> Tensor:
        moving = images.detach().requires_grad_()
        loss = cross_entropy(moving.flatten(1) @ WEIGHT.T, labels)
        return torch.autograd.grad(loss, moving)[0]

    return Guide(gradient=gradient, shape=shape, run_id=run_id)


class FakeRun:
    run_id, num_steps, next_step, spent_epsilon, budget_epsilon = "r", 5, 2, 0.5, 1.0

    def __init__(self, answer: float) -> None:
        self.answer, self.closed = answer, False

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        return torch.full_like(images, self.answer)

    def close(self) -> None:
        self.closed = True


def batch() -> tuple[Tensor, Tensor]:
    images = torch.rand((6, 1, 8, 8), generator=torch.Generator().manual_seed(1)) * 2 - 1
    return images, torch.arange(6)


def test_the_gradients_are_added() -> None:
    images, labels = batch()
    run, by = FakeRun(0.25), guide()
    guided = GuidedRun(run, by, 0.5)
    found = guided.gradient(images, labels)
    torch.testing.assert_close(found, 0.25 + 0.5 * by.gradient(images, labels))
    guided.close()
    assert run.closed
    assert (guided.run_id, guided.num_steps, guided.next_step) == ("r", 5, 2)
    assert (guided.spent_epsilon, guided.budget_epsilon) == (0.5, 1.0)


def test_a_gradient_that_is_withheld_stays_withheld() -> None:
    """Zeros say that the curator's critic learns first; the generator waits, guided or not."""
    assert GuidedRun(FakeRun(0.0), guide(), 0.5).gradient(*batch()).count_nonzero() == 0


def test_a_guided_run_makes_what_its_guide_sees(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    """The same run with and without; and in two sessions as in one."""
    from analyst.evaluation.sample import sample_run

    def seen(name: str) -> float:
        made = sample_run(tmp_path / name, 200, seed=0, weights="generator")
        images = torch.from_numpy(made.images).float() / 127.5 - 1
        scores = images.flatten(1) @ WEIGHT.T
        return float((scores.argmax(dim=1).numpy() == made.labels).mean())

    def recipe(guidance: float) -> Recipe:
        return small_recipe(training__steps=40, training__guidance=guidance)

    def barrier() -> FakeBarrier:
        return FakeBarrier(FakeDataset(epsilon=1000.0))

    plain, whole, parts = (
        SessionOptions(out=tmp_path / name, guide=by)
        for name, by in (("plain", None), ("whole", guide()), ("parts", guide()))
    )
    run_session(barrier(), recipe(0.0), plain, progress, make_stop())
    run_session(barrier(), recipe(20.0), whole, progress, make_stop())
    assert seen("whole") > seen("plain") + 0.2
    again = barrier()
    run_session(again, recipe(20.0), parts, progress, make_stop(17))
    resume_session(again, {}, parts, progress, make_stop())
    ends = [checkpoint_store(tmp_path / name).load() for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][0][key], one) for key, one in ends[1][0].items())
    assert ends[0][1].dataset["teacher_run"] == "taught"


def test_a_guide_that_does_not_count_or_is_another_is_refused_and_free(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    barrier, guided = FakeBarrier(), small_recipe(training__guidance=0.5)
    wrong: list[tuple[Recipe, Guide | None, str]] = [
        (guided, None, "training.guidance is 0.5"),
        (small_recipe(), guide(), "training.guidance is 0"),
        (guided, guide(shape=replace(SHAPE, width=9)), "does not know"),
    ]
    for recipe, by, words in wrong:
        options = SessionOptions(out=tmp_path / "run", guide=by)
        with pytest.raises(RecipeError, match=words):
            run_session(barrier, recipe, options, progress, make_stop())
    assert barrier.opened == []
    options = SessionOptions(out=tmp_path / "run", guide=guide())
    run_session(barrier, guided, options, progress, make_stop(2))
    other = SessionOptions(out=tmp_path / "run", guide=guide("another"))
    with pytest.raises(RecipeError, match="guided by run taught"):
        resume_session(barrier, {}, other, progress, make_stop())
