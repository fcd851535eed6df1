"""GS-WGAN with averaged critics through real curators: answers, cost, and a crash in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from analyst.errors import AnalystError, RunClosed, TooMuchState
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, Process, batch, digits_folder, run_cli

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


@pytest.mark.parametrize(
    ("kind", "more", "averaged"),
    [
        ("gs-wgan-mean", {}, 10),
        ("gs-wgan-decoupled", {"critics_per_step": 2}, 1),
        ("gs-wgan-round-robin", {}, 1),
    ],
)
def test_a_run_is_answered_and_costs_what_explain_says(
    local: Local, kind: str, more: dict[str, Any], averaged: int
) -> None:
    parameters = CRITICS | more
    images, labels = batch(rows=20)
    with local.connect() as barrier:
        assert kind in barrier.describe("digits").mechanisms
        plan = barrier.plan("digits", kind, parameters, num_steps=STEPS)
        run = barrier.open_run("digits", kind, parameters, num_steps=STEPS)
        answers = [run.gradient(images, labels) for _ in range(STEPS)]
        with pytest.raises(RunClosed):
            run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    for answer in answers:
        assert answer.shape == images.shape
        assert bool(torch.isfinite(answer).all())
    assert not torch.equal(answers[0], answers[1])
    std = float(torch.stack(answers).double().std())  # 7,680 draws, 5.4 standard errors: 1e-7
    assert std == pytest.approx(2.0 * 2 * 20**0.5 / averaged, rel=5.4 / (2 * 7680) ** 0.5 + 0.01)
    declared = read_described(
        {"mechanism": kind, "parameters": parameters, "num_steps": STEPS},
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


def test_a_run_goes_on_after_its_curator_was_killed(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch(rows=20)
    with first.connect() as barrier:
        run = barrier.open_run("digits", "gs-wgan-mean", QUIET, num_steps=100)
        for _ in range(3):
            run.gradient(images, labels)
        before = barrier.budget("digits")
    first.kill()
    (state,) = folder.states.rglob("state.safetensors")
    assert state.stat().st_mode & 0o077 == 0
    second = serve(folder)
    with second.connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.next_step > 3  # what was charged ahead is not asked again
        assert again.gradient(images, labels).shape == images.shape
        assert barrier.budget("digits").reserved == before.reserved
    second.kill()
    third = serve(folder)
    with third.connect() as barrier:
        last = barrier.resume_run(run.run_id)
        assert last.gradient(images, labels).shape == images.shape
        last.close()
        after = barrier.budget("digits")
        assert 0 < after.spent == after.reserved < before.reserved
    assert not any(path.is_file() for path in folder.states.rglob("*"))


def test_erasing_a_data_set_erases_what_critics_remember(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "curator")
    process = serve(folder)
    images, labels = batch(rows=20)
    with process.connect() as barrier:
        run = barrier.open_run("digits", "gs-wgan-mean", QUIET, num_steps=100)
        run.gradient(images, labels)
        assert any(folder.states.rglob("state.safetensors"))
        done = run_cli(
            *("curator", "dataset", "erase", "digits", "--dir", str(folder.root)),
            *("--reason", "asked", "--confirm", "digits"),
        )
        assert done.returncode == 0, done.stderr
    assert not any(path.is_file() for path in folder.states.rglob("*"))


def test_the_open_runs_of_one_analyst_have_half_of_the_room(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    folder = digits_folder(tmp_path / "curator")
    folder.config.write_text("[limits]\nmax_state_mib = 2\n")
    process = serve(folder)
    with process.connect() as alice, process.connect("bob") as bob:
        first = alice.open_run("digits", "gs-wgan-mean", QUIET, num_steps=STEPS)
        reserved = bob.budget("digits").reserved
        with pytest.raises(TooMuchState, match=r"would need 1 MiB .* may have 1 MiB together"):
            alice.open_run("digits", "gs-wgan-mean", QUIET, num_steps=STEPS)
        assert bob.budget("digits").reserved == reserved > 0
        bob.open_run("digits", "gs-wgan-mean", QUIET, num_steps=STEPS).close()
        first.gradient(*batch(rows=20))  # the open run goes on
        first.close()
        alice.open_run("digits", "gs-wgan-mean", QUIET, num_steps=STEPS).close()
