"""Make the cells of a table: one after the other, or some side by side; what has a row is skipped.

OUT/papers.jsonl     a row a line
OUT/work/NAME/       what a cell that is not done goes on from: curators, checkpoints, images
OUT/grids/NAME.png   ten samples a class
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from benchmarks.papers import accounted, adaptation, gs_wgan, loop, quality, real, trained
from benchmarks.papers.catalogue import Cell, Size, Table
from benchmarks.papers.rows import (
    COMMITTED,
    NAME,
    Measured,
    append_row,
    is_of,
    read_rows,
    row_of,
)
from benchmarks.papers.work import OutOfTimeError, Work, stop
from benchmarks.rows import ROOT

KINDS: Mapping[str, Callable[[Work], Measured]] = {
    "adaptation": adaptation.make,
    "bounds": accounted.make_bounds,
    "claim": accounted.make_claim,
    "gs-wgan": gs_wgan.make,
    "loop": loop.make,
    "quality": quality.make,
    "real": real.make,
    "trained": trained.make,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is to be made, and how."""

    size: Size
    out: Path
    seeds: Sequence[int] = (0,)
    cells: str = "*"
    data: Path | None = None
    minutes: float = float("inf")
    device: str = "cpu"
    curator_device: str = "cpu"
    parallel: int = 1
    measures_unfinished: bool = False


def make(tables: Sequence[Table], asked: Asked) -> int:
    """Make what has no row yet, until time is over.

    Returns:
        0, or 3 if time was over before all was done.
    """
    torch.set_num_threads(1)
    todo = [
        (cell, seed)
        for table in tables
        for cell in table.cells(asked.size)
        for seed in asked.seeds
        if is_missing(cell, seed, asked)
    ]
    deadline = time.monotonic() + 60 * asked.minutes
    if asked.parallel > 1:
        return _side_by_side(todo, asked, deadline)
    try:
        for cell, seed in todo:
            make_cell(cell, seed, asked, deadline)
    except OutOfTimeError:
        say("out of time: the same command goes on")
        return 3
    return 0


def is_missing(cell: Cell, seed: int, asked: Asked) -> bool:
    """Return whether a cell is to be made: it is asked for, can be made and has no row."""
    if not fnmatchcase(cell.name, asked.cells):
        return False
    if cell.why_not:
        say(f"{cell.table}, {cell.name}: not made: {cell.why_not}")
        return False
    rows = read_rows((COMMITTED, asked.out / NAME))
    if any(is_of(row, cell) and row["seed"] == seed for row in rows):
        say(f"{cell.table}, {cell.name}, seed {seed}: there is a row; skipped")
        return False
    return True


def make_cell(cell: Cell, seed: int, asked: Asked, deadline: float) -> None:
    """Make one cell and add its row; what it worked with is then removed."""
    name = file_name(cell, seed)
    work = Work(
        cell=cell,
        seed=seed,
        folder=asked.out.resolve() / "work" / name,
        data=None if asked.data is None else asked.data.resolve(),
        deadline=deadline,
        device=asked.device,
        curator_device=asked.curator_device,
        measures_unfinished=asked.measures_unfinished,
    )
    work.left()
    work.folder.mkdir(parents=True, exist_ok=True)
    with _core_seconds(work.folder) as spent:
        measured = KINDS[cell.kind](work)
    measured = replace(measured, core_seconds=round(float(spent.read_text()), 1))
    for grid in work.folder.glob("grid.png"):
        kept = asked.out / "grids" / f"{name}.png"
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(grid, kept)
    append_row(asked.out / NAME, row_of(cell, seed, measured))
    shutil.rmtree(work.folder)
    say(f"{work.name}: {measured.values} in {measured.seconds:.0f} s")


@contextmanager
def _core_seconds(folder: Path) -> Iterator[Path]:
    """Add to a file what this process, and those that it waits for, compute in the block.

    Yields:
        The file, which is written at the end.
    """
    file = folder / "core-seconds"
    earlier = float(file.read_text()) if file.exists() else 0.0
    before = sum(os.times()[:4])
    try:
        yield file
    finally:
        file.write_text(str(earlier + sum(os.times()[:4]) - before))


def file_name(cell: Cell, seed: int) -> str:
    """Return a name for files: other settings have another one."""
    plain = re.sub(r"[^a-z0-9.]+", "-", cell.name.lower()).strip("-")
    digest = hashlib.sha256(repr(sorted(cell.settings.items())).encode()).hexdigest()[:8]
    return f"{cell.table}-{plain}-{cell.size}-{seed}-{digest}"


def _side_by_side(todo: Sequence[tuple[Cell, int]], asked: Asked, deadline: float) -> int:
    """Make each cell in a process of its own, some at a time; return the worst exit code."""
    commands = iter([_words(cell, seed, asked, deadline) for cell, seed in todo])
    running, worst = list[subprocess.Popen[bytes]](), 0
    try:
        while True:
            for words in _some(commands, asked.parallel - len(running)):
                running.append(subprocess.Popen(words, cwd=ROOT))
            if not running:
                return worst
            time.sleep(0.5)
            for process in [one for one in running if one.poll() is not None]:
                worst = max(worst, abs(process.returncode))
                running.remove(process)
    finally:
        for process in running:
            stop(process)


def _some(commands: Iterator[list[str]], count: int) -> Iterator[list[str]]:
    for _ in range(count):
        words = next(commands, None)
        if words is not None:
            yield words


def _words(cell: Cell, seed: int, asked: Asked, deadline: float) -> list[str]:
    name = cell.name.replace("[", "[[]")  # names are patterns there
    words = [sys.executable, "-m", "benchmarks.papers", "make", cell.table, "--cells", name]
    words += ["--size", cell.size, "--seeds", str(seed), "--out", str(asked.out.resolve())]
    words += ["--device", asked.device, "--curator-device", asked.curator_device]
    words += [] if asked.data is None else ["--data", str(asked.data.resolve())]
    words += ["--measure-unfinished"] if asked.measures_unfinished else []
    left = (deadline - time.monotonic()) / 60
    return [*words, "--minutes", str(left)] if left < float("inf") else words


def say(words: str) -> None:
    """Tell how far it is."""
    print(words, file=sys.stderr, flush=True)
