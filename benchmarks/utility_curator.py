"""The steward's side of `utility.py`: a curator for one job, with a budget of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from analyst.recipes import Recipe
from benchmarks.utility_job import ROOT, Job, stop
from curator.administration.open_ledger import open_ledger_reader
from curator.cli import main as curator
from curator.config import load_config
from curator.folder import CuratorFolder

FILES = {
    "mnist": "mnist.npz",
    "fashion": "fashion_mnist.npz",
    "fashion-mnist": "fashion_mnist.npz",
    "fashion_mnist": "fashion_mnist.npz",
    "usps": "usps28.npz",
}
READY = re.compile(r"grpc \S+:(\d+) ")
PUBLIC_EVERY = 5  # of the digits, as sklearn:digits-private leaves them out


def facts(job: Job, recipe: Recipe) -> tuple[str, list[str]]:
    """Return where the private images are, and what a steward would declare about them."""
    name, mechanism = recipe.training.dataset, recipe.mechanism
    if name == "digits":
        source, size, largest, shape = "sklearn:digits-private", 1437, 1500, "1x8x8"
    else:
        source, size, largest, shape = str(data_file(job, name)), 60000, 70000, "1x28x28"
        if name == "usps":  # a public look-alike: 7,291 images, each eight times
            size = 58328
    batch = getattr(mechanism, "expected_batch_size", None)
    rate = getattr(mechanism, "sampling_rate", None) or (batch or size / 600) / size
    rows = rate * size
    capacity = max(getattr(mechanism, "capacity", None) or 0, round(rows + 8 * rows**0.5) + 1)
    words = [
        *("--epsilon", f"{job.arguments.epsilon:g}", "--delta", f"{job.arguments.delta:g}"),
        *("--adjacency", "add-or-remove-one-record", "--classes", "0,1,2,3,4,5,6,7,8,9"),
        *("--image-shape", shape, "--nominal-size", str(size), "--max-size", str(largest)),
        *("--sampling-rate", repr(rate), "--capacity", str(capacity)),
    ]
    return source, words + (["--max-level", "16"] if name == "digits" else [])


def data_file(job: Job, name: str) -> Path:
    """Return the file of a data set.

    Raises:
        SystemExit: If there is none.
    """
    if name not in FILES or job.arguments.data is None:
        sys.exit(f"no data for '{name}': give --data DIR with one of {sorted(set(FILES.values()))}")
    path: Path = job.arguments.data / FILES[name]
    return path.resolve()


def test_file(job: Job, recipe: Recipe) -> Path:
    """Return the file with the real test images; the digits' public fifth is written first."""
    if recipe.training.dataset != "digits":
        return data_file(job, recipe.training.dataset)
    path = job.work / "public-test.npz"
    images, labels = load_digits(return_X_y=True)
    public = np.arange(len(images)) % PUBLIC_EVERY == 0
    pixels = np.round(images[public].reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    np.savez(path, images=pixels, labels=labels[public])
    return path


def steward(job: Job, recipe: Recipe) -> None:
    """Make a curator for this job, unless a whole one is there.

    Raises:
        SystemExit: If a command of the curator fails.
    """
    folder, ready = job.work / "curator", job.work / "curator.ready"
    if ready.exists():
        return
    job.left()
    shutil.rmtree(job.work, ignore_errors=True)
    job.work.mkdir(parents=True)
    source, words = facts(job, recipe)
    directory = ("--dir", str(folder))
    for command in (
        ("init", str(folder)),
        ("dataset", "add", recipe.training.dataset, source, *directory, *words),
        ("analyst", "add", "analyst", *directory),
    ):
        with redirect_stdout(sys.stderr):
            code = curator(command)
        if code:
            sys.exit(f"curator {command[0]} of {job.name} ended with exit code {code}")
    config = CuratorFolder(folder).config
    config.write_text(
        config.read_text().replace(
            '\ndevice = "cpu"', f'\ndevice = "{job.arguments.curator_device}"'
        )
    )
    ready.touch()


@contextmanager
def serving(job: Job) -> Iterator[tuple[str, ...]]:
    """Serve the job's curator; yield the options that reach it.

    Raises:
        SystemExit: If it does not start.
    """
    folder = job.work / "curator"
    with (
        (job.work / "curator.log").open("ab") as log,
        subprocess.Popen(
            [
                *(sys.executable, "-m", "curator.cli", "serve", "--dir", str(folder)),
                *("--grpc-port", "0", "--rest-port", "0"),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        try:
            line = process.stdout.readline().decode() if process.stdout else ""
            found = READY.search(line)
            if not found:
                sys.exit(f"the curator did not start; see {job.work / 'curator.log'}")
            credentials = folder / "analysts" / "analyst.credentials.json"
            yield "--curator", f"localhost:{found[1]}", "--credentials", str(credentials)
        finally:
            stop(process)


def spent_epsilon(job: Job, dataset: str) -> float:
    """Return what the ledger says."""
    folder = CuratorFolder(job.work / "curator")
    ledger = open_ledger_reader(folder, load_config(folder.config))
    try:
        return ledger.statement(dataset).spent_epsilon
    finally:
        ledger.close()
