"""The papers' rows: through a real barrier, stopped in time, gone on with, and made once."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import trained
from benchmarks.papers.catalogue import Cell
from benchmarks.papers.make import Asked, make_cell
from benchmarks.papers.work import OutOfTimeError, Work, run_analyst
from tests.e2e import forks

pytestmark = pytest.mark.e2e


def _try(out: Path, *options: str, recipe: str = "embedding-digits") -> Any:
    command = [
        *("benchmarks.papers", "try", recipe, "--out", str(out)),
        *("--count", "100", "--classifiers", "logistic"),
        *("--set", "training.steps=30", "--set", "session.checkpoint_every=5"),
    ]
    return forks.run([*command, *options], timeout=250)


def _rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "papers.jsonl").read_text().splitlines()]


def test_nothing_is_begun_without_time(tmp_path: Path) -> None:
    done = _try(tmp_path, "--minutes", "0")
    assert done.returncode == 3, done.stderr
    assert "the same command goes on" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_row_is_made_once(tmp_path: Path) -> None:
    done = _try(tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = _rows(tmp_path)
    assert 0 < row["epsilon"] < 10
    assert 10 < row["values"]["logistic"] <= 100
    assert {"paper", "cell", "seed", "seconds", "command", "date", "processor"} <= row.keys()
    (grid,) = (tmp_path / "grids").glob("*.png")
    assert grid.stat().st_size > 0
    assert not list((tmp_path / "work").iterdir())

    skipped = _try(tmp_path, "--minutes", "0")
    assert skipped.returncode == 0, skipped.stderr
    assert "skipped" in skipped.stderr
    assert len(_rows(tmp_path)) == 1


def test_candidates_that_evolve_make_a_row(tmp_path: Path) -> None:
    done = _try(tmp_path, "--set", "training.steps=2", recipe="votes-digits")
    assert done.returncode == 0, done.stderr
    (row,) = _rows(tmp_path)
    assert 0 < row["epsilon"] < 10
    assert row["details"]["steps"] == 2
    assert 10 < row["values"]["logistic"] <= 100


def test_noise_is_calibrated_to_the_steps(tmp_path: Path) -> None:
    first = _try(tmp_path, "--calibrated", recipe="dp-sinkhorn-digits")
    assert first.returncode == 0, first.stderr
    (row,) = _rows(tmp_path)
    assert 9.99 < row["epsilon"] <= 10  # the least noise for the steps
    assert row["details"]["steps"] == 30


def test_a_release_that_was_paid_for_and_not_saved_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget affords one release, so a cell that asked for another would be refused."""
    settings = {"recipe": "embedding-digits", "epsilon": 10.0, "delta": 1e-5, "count": 100}
    settings |= {"classifiers": ["logistic"], "distances": False, "calibrated": True}
    settings["set"] = {"training.steps": 10}
    cell = Cell(
        table="t", paper="P", place="p", name="c", kind="trained", size="cpu", settings=settings
    )
    asked = Asked(size="cpu", out=tmp_path)

    def lost(work: Work, words: Sequence[str]) -> None:
        run_analyst(work, words)
        (work.folder / "released.safetensors").unlink()
        raise OutOfTimeError

    monkeypatch.setattr(sys, "executable", forks.executable())
    with monkeypatch.context() as losing:
        losing.setattr(trained, "run_analyst", lost)
        with pytest.raises(OutOfTimeError):
            make_cell(cell, 0, asked, float("inf"))
    make_cell(cell, 0, asked, float("inf"))
    (row,) = _rows(tmp_path)
    assert 9.99 < row["epsilon"] <= 10


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are read in /proc")
def test_a_stop_leaves_no_process_behind(tmp_path: Path) -> None:
    settings = ["--set", "training.steps=2000", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.papers", "try", "dp-sinkhorn-digits"]
    process = subprocess.Popen([*command, *settings], cwd=forks.ROOT)
    try:
        waits = time.monotonic() + 120
        while not list(tmp_path.glob("work/*/run/metrics.jsonl")):
            assert process.poll() is None
            assert time.monotonic() < waits
            time.sleep(0.1)
        assert len(_processes_of(tmp_path)) >= 3  # itself, the curator, the analyst
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert _processes_of(tmp_path) == []
    finally:
        process.kill()


def _processes_of(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").replace("\0", " ")
            found += [words] if str(folder) in words else []
    return found


def test_a_chain_is_measured_at_its_budget(tmp_path: Path) -> None:
    """The deep classifier's choice is counted beside the ledger, never in it."""
    small = {
        "first.mechanism.num_features": 40, "first.generator.width": 8, "first.samples": 60,
        "first.training.steps": 4, "sums.mechanism.num_features": 8, "sums.source.epochs": 1,
        "second.training.steps": 2, "second.samples": 60, "second.members": 1,
    }  # fmt: skip
    command = ["benchmarks.quality", "make", "two-stage-digits", "--budgets", "2", "--seeds", "0"]
    command += ["--classifiers", "logistic", "--deep-epochs", "1", "--deep-width", "1"]
    command += [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
    done = forks.run([*command, "--out", str(tmp_path)], timeout=250)
    assert done.returncode == 0, done.stderr
    (row,) = _rows(tmp_path)
    assert 1.95 < row["epsilon"] <= 2.0
    assert row["epsilon"] < row["details"]["deep_epsilon"] <= 1.01 * row["epsilon"] + 1e-6
    assert set(row["values"]) == {"logistic", "deep"}
    assert list(row["details"]["parts"]) == ["first", "sums"]
    assert row["settings"]["delta"] == 9.57e-5
    assert row["details"]["count"] == 60
