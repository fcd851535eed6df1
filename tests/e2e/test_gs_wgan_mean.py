"""GS-WGAN with averaged critics through real curators: answers, cost, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.errors import AnalystError, RunClosed
from curator.accounting.declared import read_declared
from curator.accounting.explain import explain
from tests.e2e.conftest import Local, Process, batch, digits_folder

pytestmark = pytest.mark.e2e

STEPS = 6
CRITICS: dict[str, Any] = {
    "num_critics": 10,
    "shard_capacity": 256,
    "num_samples": 20,
    "clip_norm": 1.0,
    "noise_multiplier": 2.0,
    "critic": "conv",
    "critic_width": 4,
    "critic_seed": 1,
    "critic_batch": 8,
    "critic_steps": 2,
    "warm_start_steps": 5,
    "critic_learning_rate": 1e-3,
    "gradient_penalty": 10.0,
}
QUIET = CRITICS | {"noise_multiplier": 20.0}


def test_a_run_is_answered_and_costs_what_explain_says(local: Local) -> None:
    images, labels = batch(rows=20)
    with local.connect() as barrier:
        assert "gs-wgan-mean" in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", "gs-wgan-mean", CRITICS, num_steps=STEPS)
        run = barrier.open_run("digits", "gs-wgan-mean", CRITICS, num_steps=STEPS)
        answers = [run.gradient(images, labels) for _ in range(STEPS)]
        with pytest.raises(RunClosed):
            run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    for answer in answers:
        assert answer.shape == images.shape
        assert bool(torch.isfinite(answer).all())
    assert not torch.equal(answers[0], answers[1])
    std = float(torch.stack(answers).double().std())  # 7,680 draws, 5.4 standard errors: 1e-7
    assert std == pytest.approx(2.0 * 2 * 20**0.5 / 10, rel=5.4 / (2 * 7680) ** 0.5 + 0.01)
    declared = read_declared(
        {"mechanism": "gs-wgan-mean", "parameters": CRITICS, "num_steps": STEPS},
        {"epsilon": 10.0, "delta": 1e-4},
    )
    why = explain(declared, cross_check=False)
    assert spent == plan.epsilon_after == why.ledger_epsilon > 0
    assert plan.affordable_steps == why.affordable_steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_critics": 4097}, "num_critics"),
        ({"critic": "transformer"}, "critic"),
        ({"noise_multiplier": 0.05}, r"\w"),
        ({"num_critics": 4096, "shard_capacity": 65536}, "too many images"),
    ],
)
def test_what_is_not_permitted_is_refused_and_free(
    local: Local, change: dict[str, Any], words: str
) -> None:
    with local.connect() as barrier:
        with pytest.raises(AnalystError, match=words):
            barrier.open_run("digits", "gs-wgan-mean", CRITICS | change, num_steps=5000)
        assert barrier.budget("digits").spent == 0


def test_a_killed_curator_closes_the_run_and_returns_what_was_not_used(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch(rows=20)
    with first.connect() as barrier:
        run = barrier.open_run("digits", "gs-wgan-mean", QUIET, num_steps=100)
        for _ in range(3):
            run.gradient(images, labels)
        reserved = barrier.budget("digits").reserved
    first.kill()
    with serve(folder).connect() as barrier:
        with pytest.raises(RunClosed, match="state was lost"):
            barrier.resume_run(run.run_id)
        after = barrier.budget("digits")
        assert 0 < after.spent == after.reserved < reserved
        again = barrier.open_run("digits", "gs-wgan-mean", QUIET, num_steps=2)
        assert again.gradient(images, labels).shape == images.shape
