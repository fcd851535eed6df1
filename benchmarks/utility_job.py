"""One recipe with one seed of `utility.py`: its folder, its time limit, its commands."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analyst.cli import ExitCode
from analyst.recipes import Recipe, load_recipe
from analyst.recipes.assignments import read_assignments

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 30  # a training that is told to stop writes its checkpoint


class OutOfTimeError(Exception):
    """The limit is reached; what is done is kept."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One recipe with one seed."""

    recipe: str
    seed: int
    arguments: argparse.Namespace
    deadline: float

    @property
    def name(self) -> str:
        """Name of the row."""
        label = f"-{self.arguments.label}" if self.arguments.label else ""
        return f"{Path(self.recipe).stem}{label}-seed{self.seed}"

    @property
    def out(self) -> Path:
        """The folder of all rows."""
        out: Path = self.arguments.out
        return out

    @property
    def work(self) -> Path:
        """The folder of this job."""
        return self.out / "work" / self.name

    @property
    def row(self) -> Path:
        """The row's file."""
        return self.out / "rows" / f"{self.name}.json"

    def load(self) -> Recipe:
        """Return the recipe with the changes of the command line."""
        return load_recipe(self.recipe, read_assignments(self.arguments.assignments))

    def left(self) -> float:
        """Return the seconds that are left.

        Raises:
            OutOfTimeError: If there are none.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTimeError
        return left


def run(job: Job, *commands: Sequence[str]) -> None:
    """Run commands of the analyst side by side; one that is stopped in time can be resumed.

    Args:
        job: Has the time limit.
        commands: Arguments of `analyst`.

    Raises:
        OutOfTimeError: If one did not end in time.
        SystemExit: If one fails.
    """
    job.left()
    start = [sys.executable, "-m", "analyst.cli"]
    processes = [
        subprocess.Popen([*start, *words], cwd=ROOT, stdout=subprocess.DEVNULL)
        for words in commands
    ]
    try:
        codes = [process.wait(job.left()) for process in processes]
    except subprocess.TimeoutExpired:
        raise OutOfTimeError from None
    finally:
        for process in processes:
            stop(process)
    if ExitCode.INTERRUPTED in codes:
        raise OutOfTimeError
    for code, words in zip(codes, commands, strict=True):
        if code != ExitCode.OK:
            sys.exit(f"analyst {words[0]} of {job.name} ended with exit code {code}")


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
