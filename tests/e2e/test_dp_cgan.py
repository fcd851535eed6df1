"""DP-CGAN through real curators: answers, cost, training to its end, and what a crash leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.cli import main
from analyst.errors import AnalystError, RunClosed
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, Process, batch, credentials, digits_folder

pytestmark = pytest.mark.e2e

STEPS = 4
CRITIC: dict[str, Any] = {
    "sampling_rate": 40 / 1437,
    "capacity": 96,
    "expected_batch_size": 40.0,
    "num_samples": 20,
    "num_fakes": 10,
    "clip_norm": 0.1,
    "noise_multiplier": 2.0,
    "max_size": 2000,
    "max_records_per_unit": 1,
    "critic": "conv",
    "critic_width": 2,
    "critic_seed": 1,
    "critic_steps": 3,
    "critic_learning_rate": 1e-3,
}
RARER: dict[str, Any] = {  # at once, whatever the critic knows: gradients at steps 1, 3, 8, 18
    "adaptive_threshold": 1.0,
    "adaptive_decay": 0.5,
    "adaptive_grace": 1,
}


def test_a_run_is_answered_and_costs_what_explain_says(local: Local) -> None:
    images, labels = batch(rows=20)
    with local.connect() as barrier:
        assert "dp-cgan" in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", "dp-cgan", CRITIC, num_steps=STEPS)
        run = barrier.open_run("digits", "dp-cgan", CRITIC, num_steps=STEPS)
        answers = [run.gradient(images, labels) for _ in range(STEPS)]
        with pytest.raises(RunClosed):
            run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    for answer in answers:
        assert answer.shape == images.shape
        assert bool(torch.isfinite(answer).all())
    assert not torch.equal(answers[0], answers[1])
    declared = read_described(
        {"mechanism": "dp-cgan", "parameters": CRITIC, "num_steps": STEPS},
        {"epsilon": 10.0, "delta": 1e-4},
    )
    why = explain(declared, cross_check=False)
    assert spent == plan.epsilon_after == why.ledger_epsilon > 0
    assert plan.affordable_steps == why.affordable_steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling_rate": 0.5}, "sampling_rate"),
        ({"capacity": 97}, "capacity"),
        ({"max_size": 1999}, "max_size"),
        ({"critic": "transformer"}, "critic"),
        ({"num_fakes": 21}, "num_fakes"),
        ({"adaptive_grace": 7}, "adaptive_threshold"),
    ],
)
def test_what_is_not_permitted_is_refused_and_free(
    local: Local, change: dict[str, Any], words: str
) -> None:
    with local.connect() as barrier:
        with pytest.raises(AnalystError, match=words):
            barrier.open_run("digits", "dp-cgan", CRITIC | change, num_steps=STEPS)
        assert barrier.budget("digits").spent == 0


def test_a_generator_is_trained_by_a_recipe(local: Local, tmp_path: Path) -> None:
    out = tmp_path / "run"
    smaller = {
        "mechanism.expected_batch_size": "40",
        "mechanism.capacity": "96",
        "mechanism.max_size": "2000",
        "mechanism.num_samples": "40",
        "mechanism.num_fakes": "20",
        "training.steps": "25",
        "session.checkpoint_every": "10",
    }
    words = [word for name, value in smaller.items() for word in ("--set", f"{name}={value}")]
    code = main(
        [
            *("train", "--recipe", "dp-cgan-digits", "--out", str(out), *words),
            *("--curator", f"localhost:{local.curator.rpc.port}"),
            *("--credentials", str(credentials(local.folder, "alice"))),
        ]
    )
    assert code == 0
    assert (out / "checkpoints" / "checkpoint-0000000025.json").exists()
    with local.connect() as barrier:
        budget = barrier.budget("digits")
    assert budget.spent == budget.reserved > 0


def test_gradients_get_rarer_by_a_recipe_and_every_step_is_charged(
    local: Local, tmp_path: Path
) -> None:
    fixed = CRITIC | {"num_samples": 40, "num_fakes": 20}
    with local.connect() as barrier:
        planned = barrier.plan("digits", "dp-cgan", fixed, num_steps=12).epsilon_after
    changes = fixed | RARER
    del changes["sampling_rate"]
    words = [f"mechanism.{name}={value}" for name, value in changes.items()]
    words += ["training.steps=12", "session.checkpoint_every=1", "session.metrics_every=1"]
    code = main(
        [
            *("train", "--recipe", "dp-cgan-adaptive-digits", "--out", str(tmp_path / "run")),
            *(word for one in words for word in ("--set", one)),
            *("--curator", f"localhost:{local.curator.rpc.port}"),
            *("--credentials", str(credentials(local.folder, "alice"))),
        ]
    )
    assert code == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    updates = [line for line in map(json.loads, lines) if line["kind"] == "update"]
    assert [line["step"] for line in updates if line["gradient_norm"] > 0] == [1, 3, 8]
    assert updates[-1]["step"] == 12
    assert updates[-1]["num_updates"] == 3
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == planned > 0


def test_a_killed_curator_withholds_answers_as_it_would_have(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch(rows=20)
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-cgan", CRITIC | RARER, num_steps=100)
        before = [bool(run.gradient(images, labels).any()) for _ in range(5)]
    first.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        after = [bool(again.gradient(images, labels).any()) for _ in range(4)]
    assert before == [True, False, True, False, False]
    assert after == [False, False, True, False]


def test_a_killed_curator_goes_on_with_the_critic_that_it_had(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch(rows=20)
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-cgan", CRITIC, num_steps=100)
        before = [run.gradient(images, labels) for _ in range(3)]
        reserved = barrier.budget("digits").reserved
    first.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.next_step > 3
        after = again.gradient(images, labels)
        assert barrier.budget("digits").reserved == reserved
    # a critic that started anew would score images otherwise than one of nine updates
    near = float((after - before[-1]).norm() / before[-1].norm())
    fresh = float((after - before[0]).norm() / before[0].norm())
    assert near < fresh
