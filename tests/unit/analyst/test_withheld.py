"""Answers of zeros: the curator's critic is to learn more first, and the generator waits."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from analyst.recipes import Recipe
from analyst.training.checkpoint import checkpoint_store
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, resume_session, run_session
from tests.fakes.barrier import FakeBarrier, FakeRun

MakeRecipe = Callable[..., Recipe]
MakeStop = Callable[..., Any]
EVERY = 3  # a gradient at steps 3, 6, 9 and 12


class RareRun(FakeRun):
    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        step = self.next_step
        return super().gradient(images, labels) * float(step % EVERY == 0)


class RareBarrier(FakeBarrier):
    def open_run(self, *arguments: Any, **named: Any) -> FakeRun:
        return RareRun(self, super().open_run(*arguments, **named).run_id)

    def resume_run(self, run_id: str) -> FakeRun:
        return RareRun(self, run_id)


def tensors(out: Path) -> dict[str, Tensor]:
    return checkpoint_store(out).load()[0]


def test_zeros_change_nothing_but_what_is_drawn(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    options = SessionOptions(out=tmp_path)
    barrier = RareBarrier()
    run_session(barrier, small_recipe(), options, progress, make_stop(after=3))
    before = tensors(tmp_path)
    result = resume_session(barrier, {}, options, progress, make_stop(after=2))
    after = tensors(tmp_path)
    assert (result.num_updates, result.next_step) == (1, 6)
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed == {"randomness"}
    digests = [digest for _, digest in barrier.asked]
    assert len(set(digests)) == 5


def test_a_run_is_finished_when_its_steps_are_used(
    tmp_path: Path,
    small_recipe: MakeRecipe,
    progress: Progress,
    make_stop: MakeStop,
    screen: io.StringIO,
) -> None:
    options = SessionOptions(out=tmp_path)
    recipe = small_recipe(session__checkpoint_every=2, session__metrics_every=1)
    result = run_session(RareBarrier(), recipe, options, progress, make_stop())
    assert (result.num_updates, result.next_step) == (4, 13)
    assert "step 12/12" in screen.getvalue()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if line["kind"] == "update"]
    assert steps == [3, 6, 9, 12]


def test_a_resumed_run_with_withheld_answers_equals_an_uninterrupted_one(
    tmp_path: Path, small_recipe: MakeRecipe, progress: Progress, make_stop: MakeStop
) -> None:
    whole, parts = (SessionOptions(out=tmp_path / name) for name in ("whole", "parts"))
    run_session(RareBarrier(), small_recipe(), whole, progress, make_stop())
    barrier = RareBarrier()
    run_session(barrier, small_recipe(), parts, progress, make_stop(after=4))
    resume_session(barrier, {}, parts, progress, make_stop(after=1))
    resume_session(barrier, {}, parts, progress, make_stop())
    expected, actual = tensors(whole.out), tensors(parts.out)
    assert expected.keys() == actual.keys()
    assert all(torch.equal(value, actual[name]) for name, value in expected.items())
