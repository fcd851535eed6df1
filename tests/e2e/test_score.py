"""Candidates ranked through a real curator: trained on, charged, and told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from analyst.cli import ExitCode, main
from analyst.errors import AnalystError
from analyst.score.recipe import SCORES
from tests.e2e.conftest import Local, batch, credentials
from tests.fakes.adaptation import write_digits

pytestmark = pytest.mark.e2e


def access(local: Local) -> list[str]:
    target = f"localhost:{local.curator.rpc.port}"
    return ["--curator", target, "--credentials", str(credentials(local.folder, "alice"))]


def spoiled(path: Path, source: Path, share: float) -> Path:
    """Write the same images with a share of their labels moved on by one."""
    with np.load(source) as file:
        labels = file["labels"].copy()
        count = int(share * len(labels))
        labels[:count] = (labels[:count] + 1) % 10
        np.savez(path, images=file["images"], labels=labels)
    return path


def test_runs_and_files_are_ranked_within_an_epsilon(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_digits(tmp_path / "good.npz", 1000)
    worse = spoiled(tmp_path / "worse.npz", good, 0.9)
    run = tmp_path / "run"
    trained = ["--recipe", "embedding-digits", "--steps", "2", "--out", str(run)]
    assert main(["train", *access(local), *trained]) == ExitCode.OK
    with local.connect() as barrier:
        sent = SCORES.load("score-digits").mechanism.parameters(barrier.describe("digits"))
        barrier.open_run("digits", "score", sent, num_steps=600)  # of someone who takes a break
        before = barrier.budget("digits")
        assert before.reserved > before.spent + 0.6
    capsys.readouterr()
    ask = ["score", str(worse), str(run), str(good), *access(local), "--recipe", "score-digits"]
    assert main([*ask, "--epsilon", "0.6", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    with local.connect() as barrier:
        after = barrier.budget("digits")
        runs = barrier.runs().runs
    assert before.reserved + 0.59 < after.reserved <= before.reserved + 0.6
    assert found["spent_epsilon"] == after.spent > before.spent
    names = [Path(one["name"]).name for one in found["candidates"]]
    assert names[0] == "good.npz"
    assert sorted(names) == ["good.npz", "run", "worse.npz"]
    assert found["std_error"] == found["noise_multiplier"] / 1437
    newest = next(one for one in runs if one.run_id == found["run_id"])
    assert (newest.mechanism, newest.used_steps, newest.is_open) == ("score", 3, False)

    assert main([*ask, "--set", "mechanism.counts=by-class", "--quiet"]) == ExitCode.OK
    assert "good.npz" in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"images": np.zeros((4, 8, 8, 3), np.uint8)}, ExitCode.FILES, "channels"),
        ({"labels": np.full(4, 10)}, ExitCode.FILES, "labels from"),
    ],
)
def test_a_candidate_that_does_not_fit_costs_nothing(
    local: Local,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: ExitCode,
    words: str,
) -> None:
    fields: dict[str, Any] = {"images": np.zeros((4, 8, 8), np.uint8), "labels": np.arange(4)}
    fields |= changes
    bad = tmp_path / "bad.npz"
    np.savez(bad, **fields)
    good = write_digits(tmp_path / "good.npz", 100)
    assert main(["score", str(good), str(bad), *access(local), "--recipe", "score-digits"]) == code
    assert words in capsys.readouterr().err
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == 0
        assert not barrier.runs().runs


@pytest.mark.parametrize(
    ("places", "weights", "words"),
    [
        (torch.zeros(10, 1), save({}), "weights"),
        (torch.zeros(1, 1), b"", "weights"),
        (torch.zeros(2, 1), save({}), "expected zeros, 1 rows"),
        (torch.ones(1, 1), save({}), "expected zeros"),
    ],
)
def test_what_was_not_declared_is_refused_and_free(
    local: Local, places: torch.Tensor, weights: bytes, words: str
) -> None:
    with local.connect() as barrier:
        mechanism = SCORES.load("score-digits").mechanism
        sent = mechanism.parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "score", sent, num_steps=2)
        with pytest.raises(AnalystError, match=words if len(places) < 10 else "expected zeros"):
            run.feature_gradient(places, weights)
        with pytest.raises(AnalystError, match="features"):
            run.gradient(*batch(rows=10))
        assert barrier.budget("digits").spent == 0
