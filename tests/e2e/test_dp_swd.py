"""DP-SWD through a real curator: what is asked, what is answered, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from analyst.errors import AnalystError
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, batch

pytestmark = pytest.mark.e2e

STEPS = 4
SWD: dict[str, Any] = {
    "sampling_rate": 40 / 1437,
    "capacity": 96,
    "num_samples": 40,
    "num_projections": 30,
    "clip_norm": 9.0,
    "label_scale": 4.0,
    "origin": "black",
    "noise_multiplier": 0.8,
    "max_size": 2000,
    "max_records_per_unit": 1,
}


def test_a_run_is_answered_and_costs_what_explain_says(local: Local) -> None:
    images, labels = batch(rows=40)
    with local.connect() as barrier:
        assert "dp-swd" in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", "dp-swd", SWD, num_steps=STEPS)
        run = barrier.open_run("digits", "dp-swd", SWD, num_steps=STEPS)
        answers = [run.gradient(images, labels) for _ in range(STEPS)]
        spent = barrier.budget("digits").spent
    for answer in answers:
        assert answer.shape == images.shape
        assert bool(torch.isfinite(answer).all())
    assert not torch.equal(answers[0], answers[1])  # fresh directions, sample and noise
    declared = read_described(
        {"mechanism": "dp-swd", "parameters": {**SWD, "dimension": 74}, "num_steps": STEPS},
        {"epsilon": 10.0, "delta": 1e-4},
    )
    why = explain(declared, cross_check=False)
    assert spent == plan.epsilon_after == why.ledger_epsilon > 0
    assert plan.affordable_steps == why.affordable_steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_size": 1999}, "max_size must be at least 2000"),
        ({"capacity": 97}, "capacity may be at most 96"),
        ({"origin": "blue"}, "origin"),
        ({"num_samples": 97}, "num_samples must not exceed capacity"),
        ({"noise_multiplier": 0.05}, r"\w"),
    ],
)
def test_what_is_not_permitted_is_refused_and_free(
    local: Local, change: dict[str, Any], words: str
) -> None:
    with local.connect() as barrier:
        with pytest.raises(AnalystError, match=words):
            barrier.open_run("digits", "dp-swd", SWD | change, num_steps=5000)
        assert barrier.budget("digits").spent == 0


def test_samples_that_were_not_declared_are_refused(local: Local) -> None:
    images, labels = batch(rows=39)
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-swd", SWD, num_steps=STEPS)
        with pytest.raises(AnalystError, match="expected 40 rows"):
            run.gradient(images, labels)
