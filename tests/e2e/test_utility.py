"""The experiment harness: a row through a real barrier, stopped in time, and gone on with."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str


Utility = Callable[..., Done]


@pytest.fixture
def utility(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Utility:
    """The harness in this process, which has imported what it imports; its curators are real."""
    words = (
        *("--recipe", "embedding-digits", "--count", "100", "--classifiers", "logistic"),
        *("--set", "training.steps=30", "--set", "session.checkpoint_every=5"),
    )

    def run(*options: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["utility", "--out", str(tmp_path), *words, *options])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("benchmarks.utility", run_name="__main__")
        return Done(int(ended.value.code or 0), *capfd.readouterr())

    return run


def test_nothing_is_begun_without_time(tmp_path: Path, utility: Utility) -> None:
    done = utility("--minutes", "0")
    assert done.code == 3, done.stderr
    assert "the same command goes on" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_row_is_made_once(tmp_path: Path, utility: Utility) -> None:
    done = utility()
    assert done.code == 0, done.stderr
    row = json.loads((tmp_path / "rows" / "embedding-digits-seed0.json").read_text())
    assert json.loads(done.stdout.splitlines()[0]) == row
    assert 0 < row["epsilon"] < 10
    assert 0.1 < row["accuracy"]["logistic"] <= 1
    assert (tmp_path / "grids" / "embedding-digits-seed0.png").stat().st_size > 0

    work = tmp_path / "work" / "embedding-digits-seed0"
    (work / "trained").unlink()  # as if stopped just before: the rest is kept
    (tmp_path / "rows" / "embedding-digits-seed0.json").unlink()
    again = utility()
    assert again.code == 0, again.stderr
    repeated = json.loads(again.stdout.splitlines()[0])
    assert repeated["accuracy"] == row["accuracy"]
    assert repeated["epsilon"] == row["epsilon"]

    skipped = utility("--minutes", "0")
    assert skipped.code == 0
    assert "skipped" in skipped.stderr
    assert "| embedding-digits | 1 |" in skipped.stdout
