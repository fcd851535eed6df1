"""Votes through a real curator: candidates grow, and a killed run pays nothing twice."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from analyst.cli import ExitCode, main
from analyst.errors import AnalystError
from analyst.evolution.choice import shares
from analyst.evolution.recipe import EVOLUTIONS, EvolutionRecipe
from analyst.evolution.session import EvolutionOptions, resume_evolution, start_evolution
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, batch, credentials
from tests.fakes.adaptation import StopAfter
from tests.fakes.proposer import NAME

pytestmark = pytest.mark.e2e

SMALL = {"mechanism.num_candidates": 40, "proposer.source": NAME, "choice.lookahead": 2}


def recipe(**changes: Any) -> EvolutionRecipe:
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return EVOLUTIONS.load("votes-digits", SMALL | keys)


def access(local: Local) -> list[str]:
    target = f"localhost:{local.curator.rpc.port}"
    return ["--curator", target, "--credentials", str(credentials(local.folder, "alice"))]


def options(out: Path, stop: StopAfter) -> EvolutionOptions:
    return EvolutionOptions(out=out, progress=Progress(io.StringIO()), stop=stop)


def test_the_command_evolves_samples_and_is_charged(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, made = tmp_path / "run", tmp_path / "made.npz"
    evolve = ["evolve", *access(local), "--out", str(out)]
    small = ["--propose", NAME, "--set", "mechanism.num_candidates=40"]
    assert main([*evolve, "--recipe", "votes-digits", *small]) == ExitCode.OK
    known = {"nominal_size": 1437, "epsilon": 10.0, "delta": 1e-4}
    loaded = EVOLUTIONS.to_dict(EVOLUTIONS.load("votes-digits"))
    declared = read_described({key: loaded[key] for key in ("mechanism", "training")}, known)
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == explain(declared, cross_check=False).ledger_epsilon
    assert "votes" in (out / "certificate.json").read_text()
    assert main([*evolve, "--resume"]) == ExitCode.OK  # there is nothing left to do
    assert main([*evolve, "--resume", "--propose", NAME]) == ExitCode.RECIPE
    assert main(["sample", "--out-of", str(out), "--count", "30", "--out", str(made)]) == 0
    with np.load(made) as file:
        assert file["images"].shape == (30, 8, 8)
        assert np.bincount(file["labels"]).tolist() == [3] * 10
        assert str(file["run_id"]) == checkpoint_store(out).load()[1].run_id
    capsys.readouterr()
    other = ["teacher", "train", *access(local), "--out", str(out), "--resume"]
    assert main(other) == ExitCode.FILES
    assert "is of votes" in capsys.readouterr().err


def test_a_run_that_was_killed_asks_again_for_the_same_and_pays_once(
    local: Local, tmp_path: Path
) -> None:
    """Its answer was on its way when it was killed, and is fetched; the last one's too."""
    out = tmp_path / "run"
    with local.connect() as barrier:
        assert start_evolution(barrier, recipe(), options(out, StopAfter(2))) is Outcome.STOPPED
        tensors, manifest = checkpoint_store(out).load()
        assert (manifest.next_step, manifest.num_updates) == (3, 2)
        run = barrier.resume_run(manifest.run_id)
        sent = tensors["sent_NCHW"].float() / 127.5 - 1
        answer = run.votes(sent, tensors["labels_N"], 40)  # and then it was killed
        assert resume_evolution(barrier, options(out, StopAfter(1))) is Outcome.STOPPED
        tensors, manifest = checkpoint_store(out).load()
        assert (manifest.next_step, manifest.num_updates) == (4, 3)
        mine = recipe()
        known = shares(answer, tensors["labels_N"], mine.choice.threshold * 4.0)
        assert torch.equal(tensors["shares_N"], known)
        sent = tensors["sent_NCHW"].float() / 127.5 - 1
        barrier.resume_run(manifest.run_id).votes(sent, tensors["labels_N"], 40)
        assert not barrier.resume_run(manifest.run_id).is_open  # it was the last one
        assert resume_evolution(barrier, options(out, StopAfter())) is Outcome.COMPLETED
    _, after = checkpoint_store(out).load()
    assert (after.num_updates, after.finished) == (4, True)
    assert "skipped" not in (out / "metrics.jsonl").read_text()


def test_votes_of_the_digits_are_for_what_is_like_them(local: Local, tmp_path: Path) -> None:
    """To an image the nearest grey is its mean, so what has votes is as dark as the digits are."""
    out = tmp_path / "run"
    quiet = recipe(mechanism__noise_multiplier=1.0, training__steps=2, choice__lookahead=0)
    with local.connect() as barrier:
        assert start_evolution(barrier, quiet, options(out, StopAfter())) is Outcome.COMPLETED
    tensors, _ = checkpoint_store(out).load()
    ink = tensors["voted_NCHW"].float().mean(dim=(1, 2, 3)) / 255
    weights = tensors["shares_N"] / 10
    found = float(weights @ ink.double())
    assert found == pytest.approx(load_digits().images.mean() / 16, abs=0.05)
    assert float(weights @ (ink.double() - found).square()) < 0.15**2  # greys were even: .29


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (39, torch.zeros(39, dtype=torch.int64), "expected 40 rows"),
        (40, torch.full((40,), 10), "labels"),
    ],
)
def test_what_was_not_declared_is_refused_and_free(
    local: Local, rows: int, labels: torch.Tensor, words: str
) -> None:
    with local.connect() as barrier:
        sent = recipe().mechanism.parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "votes", sent, num_steps=2)
        with pytest.raises(AnalystError, match=words):
            run.votes(batch(rows=rows)[0], labels, 40)
        with pytest.raises(AnalystError, match="images"):
            run.feature_gradient(torch.zeros(40, 64), b"")
        assert barrier.budget("digits").spent == 0


def test_a_proposer_that_breaks_costs_nothing(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    evolve = ["evolve", *access(local), "--out", out, "--recipe", "votes-digits", "--propose"]
    for name, words in {
        "tests.fakes.proposer:Nothing": "no methods propose and vary",
        "tests.fakes.proposer:Wrong": "propose returned",
        "tests.fakes.proposer:nobody": "cannot be made: AttributeError",
        "nobody": "names no proposer",
    }.items():
        assert main([*evolve, name]) == ExitCode.RECIPE
        assert words in capsys.readouterr().err
    empty = tmp_path / "fonts"
    empty.mkdir()
    assert main([*evolve[:-1], "--fonts", str(empty)]) == ExitCode.RECIPE
    assert "apt-get install" in capsys.readouterr().err
    with local.connect() as barrier:
        assert not barrier.runs().runs
