"""One cell with one seed being made: its folder, its time limit, the commands that it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyst.cli import ExitCode
from benchmarks.papers.catalogue import Cell
from benchmarks.rows import ROOT

STOP_SECONDS = 30  # a training that is told to stop writes its checkpoint


class OutOfTimeError(Exception):
    """The limit is reached; what is done is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A cell with a seed; `folder` is its own, and `deadline` one of the monotonic clock."""

    cell: Cell
    seed: int
    folder: Path
    data: Path | None = None
    deadline: float = float("inf")
    device: str = "cpu"
    curator_device: str = "cpu"
    measures_unfinished: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """The cell's."""
        return self.cell.settings

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.cell.table}, {self.cell.name}, seed {self.seed}"

    def left(self) -> float:
        """Return the seconds that are left.

        Raises:
            OutOfTimeError: If there are none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        return left


def run_analyst(work: Work, words: Sequence[str]) -> None:
    """Run a command of the analyst; one that is stopped in time can be resumed.

    Raises:
        OutOfTimeError: If it did not end in time.
        SystemExit: If it fails.
    """
    command = [sys.executable, "-m", "analyst.cli", *words]
    work.left()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        code = process.wait(None if work.deadline == float("inf") else work.left())
    except subprocess.TimeoutExpired:
        raise OutOfTimeError from None
    finally:
        stop(process)
    if code == ExitCode.INTERRUPTED:
        raise OutOfTimeError
    if code != ExitCode.OK:
        sys.exit(f"analyst {words[0]} of {work.name} ended with exit code {code}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process that runs to stop, and make it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
