"""PATE-GAN, G-PATE and adversarial DP-Sinkhorn through real curators: training, cost, a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.errors import AnalystError, RunClosed
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, Process, batch, digits_folder

pytestmark = pytest.mark.e2e

STEPS = 6
TEACHERS: dict[str, Any] = {
    "num_teachers": 10,
    "shard_capacity": 256,
    "num_samples": 20,
    "noise_multiplier": 2.0,
    "teacher": "mlp",
    "teacher_width": 8,
    "teacher_seed": 1,
    "teacher_batch": 8,
    "teacher_steps": 2,
    "warm_start_steps": 5,
    "teacher_learning_rate": 1e-3,
    "gradient_penalty": 10.0,
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "pate-gan": TEACHERS
    | {
        "num_labelled": 10,
        "labels": "relative",
        "reach": 0.2,
        "student": "mlp",
        "student_width": 16,
        "student_seed": 1,
        "student_batch": 32,
        "student_steps": 4,
        "student_learning_rate": 1e-3,
        "pool_steps": 3,
        "residual": 0.1,
    },
    "g-pate": TEACHERS
    | {
        "num_projections": 4,
        "projection_seed": 1,
        "aggregation": "votes",
        "num_bins": 4,
        "clip_norm": 1.5,
    },
    "adversarial-dp-sinkhorn": {
        "num_extractors": 10,
        "shard_capacity": 200,
        "num_samples": 16,
        "num_debias": 4,
        "clip_norm": 0.5,
        "noise_multiplier": 2.0,
        "reg": 0.5,
        "label_scale": 4.0,
        "feature_scale": 1.0,
        "extractor": "mlp",
        "extractor_width": 8,
        "extractor_seed": 1,
        "extractor_steps": 1,
        "extractor_learning_rate": 1e-3,
    },
}
NAMES = pytest.mark.parametrize("name", sorted(PARAMETERS))


@NAMES
def test_a_run_is_answered_and_costs_what_explain_says(local: Local, name: str) -> None:
    images, labels = batch(rows=20)
    parameters = PARAMETERS[name]
    with local.connect() as barrier:
        assert name in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", name, parameters, num_steps=STEPS)
        run = barrier.open_run("digits", name, parameters, num_steps=STEPS)
        answers = [run.gradient(images, labels) for _ in range(STEPS)]
        with pytest.raises(RunClosed):
            run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    for answer in answers:
        assert answer.shape == images.shape
        assert bool(torch.isfinite(answer).all())
    assert not torch.equal(answers[0], answers[1])
    declared = read_described(
        {"mechanism": name, "parameters": parameters, "num_steps": STEPS},
        {"epsilon": 10.0, "delta": 1e-4},
    )
    why = explain(declared, cross_check=False)
    assert spent == plan.epsilon_after == why.ledger_epsilon > 0
    assert plan.affordable_steps == why.affordable_steps


@NAMES
def test_a_run_goes_on_after_its_curator_was_killed(
    tmp_path: Path, serve: Callable[..., Process], name: str
) -> None:
    folder = digits_folder(tmp_path / "curator")
    quiet = PARAMETERS[name] | {"noise_multiplier": 20.0}
    first = serve(folder)
    images, labels = batch(rows=20)
    with first.connect() as barrier:
        run = barrier.open_run("digits", name, quiet, num_steps=100)
        for _ in range(2):
            run.gradient(images, labels)
        before = barrier.budget("digits")
    first.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.next_step > 2  # what was charged ahead is not asked again
        assert again.gradient(images, labels).shape == images.shape
        assert barrier.budget("digits").reserved == before.reserved


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("pate-gan", {"num_labelled": 21}, "num_labelled"),
        ("pate-gan", {"noise_multiplier": 0.05}, r"\w"),
        ("g-pate", {"aggregation": "mean"}, "num_bins must be 0"),
        ("g-pate", {"num_teachers": 4096, "num_samples": 4096, "num_bins": 64}, "too much work"),
        ("adversarial-dp-sinkhorn", {"num_samples": 1 << 16}, "too many"),
    ],
)
def test_what_is_not_permitted_is_refused_and_free(
    local: Local, name: str, change: dict[str, Any], words: str
) -> None:
    with local.connect() as barrier:
        with pytest.raises(AnalystError, match=words):
            barrier.open_run("digits", name, PARAMETERS[name] | change, num_steps=5000)
        assert barrier.budget("digits").spent == 0
