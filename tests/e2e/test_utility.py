"""The experiment harness: a row through a real barrier, stopped in time, and gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.e2e


def _utility(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "-m", "benchmarks.utility", "--out", str(out)),
        *("--recipe", "embedding-digits", "--count", "100", "--classifiers", "logistic"),
        *("--set", "training.steps=30", "--set", "session.checkpoint_every=5"),
    ]
    return subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=250, check=False
    )


def test_nothing_is_begun_without_time(tmp_path: Path) -> None:
    done = _utility(tmp_path, "--minutes", "0")
    assert done.returncode == 3, done.stderr
    assert "the same command goes on" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_row_is_made_once(tmp_path: Path) -> None:
    done = _utility(tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "rows" / "embedding-digits-seed0.json").read_text())
    assert json.loads(done.stdout.splitlines()[0]) == row
    assert 0 < row["epsilon"] < 10
    assert 0.1 < row["accuracy"]["logistic"] <= 1
    assert (tmp_path / "grids" / "embedding-digits-seed0.png").stat().st_size > 0

    work = tmp_path / "work" / "embedding-digits-seed0"
    (work / "trained").unlink()  # as if stopped just before: the rest is kept
    (tmp_path / "rows" / "embedding-digits-seed0.json").unlink()
    again = _utility(tmp_path)
    assert again.returncode == 0, again.stderr
    repeated = json.loads(again.stdout.splitlines()[0])
    assert repeated["accuracy"] == row["accuracy"]
    assert repeated["epsilon"] == row["epsilon"]

    skipped = _utility(tmp_path, "--minutes", "0")
    assert skipped.returncode == 0
    assert "skipped" in skipped.stderr
    assert "| embedding-digits | 1 |" in skipped.stdout
