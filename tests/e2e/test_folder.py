"""From a folder of images to a gradient: check, add, serve, ask."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from curator.cli import ExitCode
from curator.data.store import open_store
from curator.folder import initialise
from tests.e2e.conftest import ROOT, SINKHORN, Process, batch, run_cli

pytestmark = pytest.mark.e2e

COUNT, PEOPLE = 300, 60
FACTS = (
    *("--epsilon", "10", "--delta", "1e-4", "--classes", "0,1,2,3,4,5,6,7,8,9"),
    *("--image-shape", "1x8x8", "--sampling-rate", "1/24", "--capacity", "96"),
)
RECORDS = ("--adjacency", "add-or-remove-one-record", "--nominal-size", "320", "--max-size", "400")
GROUPS = (
    *("--adjacency", "add-or-remove-one-group", "--max-records-per-group", "4"),
    *("--nominal-size", "60", "--max-size", "80"),
)


def write_photos(root: Path) -> None:
    """Write digits into a folder for each class, every third in colour, every fifth larger."""
    images, labels = load_digits(return_X_y=True)
    for number in range(COUNT):
        levels = np.repeat((images[number].reshape(8, 8) * 255 / 16).astype(np.uint8), 2, axis=0)
        image = Image.fromarray(levels[::2] if number % 5 else np.repeat(levels, 2, axis=1))
        path = root / str(labels[number]) / f"{number}.{'png' if number % 2 else 'BMP'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        (image if number % 3 else image.convert("RGB")).save(path)
    (root / ".DS_Store").write_bytes(b"\0\0\0\x01Bud1")


def write_table(root: Path, table: Path) -> None:
    """Name the person of each image: from one to nine images each."""
    paths = sorted(path for path in root.rglob("*.*") if path.parent != root)
    owner = np.random.default_rng(3).integers(0, PEOPLE, len(paths))
    owner[:PEOPLE] = np.arange(PEOPLE)
    with table.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["path", "label", "group"])
        for path, one in zip(paths, owner, strict=True):
            rows.writerow([path.relative_to(root), path.parent.name, f"person {one}"])


def test_from_a_folder_to_a_gradient(tmp_path: Path, serve: Callable[..., Process]) -> None:
    photos, table = tmp_path / "photos", tmp_path / "labels.csv"
    write_photos(photos)
    write_table(photos, table)
    check = ("dataset", "check", str(photos), "--image-shape", "1x8x8")
    refused = run_cli("curator", *check)
    assert refused.returncode == ExitCode.FAILED
    assert "add --convert grey" in refused.stdout
    assert "add --resize fit" in refused.stdout
    options = ("--convert", "grey", "--resize", "fit")
    checked = run_cli("curator", *check, *options, "--json")
    assert checked.returncode == ExitCode.OK, checked.stderr
    told = json.loads(checked.stdout)
    assert told["images"] == COUNT
    assert told["conversions"] == {"resized (fit)": COUNT // 5, "rgb to grey": COUNT // 3}
    assert list(told["classes"]) == [str(number) for number in range(10)]
    assert told["left_out"] == [{"name": ".DS_Store", "why": "hidden"}]

    folder = initialise(tmp_path / "curator")
    folder.add_analyst("alice")
    process = serve(folder)
    add = ("dataset", "add", "digits", str(photos), "--dir", str(folder.root), *FACTS, *RECORDS)
    assert run_cli("curator", *add).returncode == ExitCode.FAILED
    added = run_cli("curator", *add, *options)
    assert added.returncode == ExitCode.OK, added.stderr
    again = ("dataset", "add", "people", str(photos), "--dir", str(folder.root), *FACTS, *GROUPS)
    grouped = run_cli("curator", *again, *options, "--labels", str(table))
    assert grouped.returncode == ExitCode.FAILED
    assert "the same images are registered as 'digits'" in grouped.stderr
    (photos / "0" / "0.BMP").unlink()
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join(row for row in rows if "0/0.BMP" not in row))
    grouped = run_cli("curator", *again, *options, "--labels", str(table))
    assert grouped.returncode == ExitCode.FAILED
    assert f"{COUNT - 1} of {COUNT - 1} images are also in 'digits'" in grouped.stderr
    shared = (*again, "--max-shared", "1")
    grouped = run_cli("curator", *shared, *options, "--labels", str(table))
    assert grouped.returncode == ExitCode.OK, grouped.stderr
    assert f"{COUNT - 1} images in {PEOPLE} groups" in grouped.stdout

    with process.connect() as barrier:
        images, labels = batch()
        for name in ("digits", "people"):
            chosen = SINKHORN | {"sampling_rate": 1 / 24}
            run = barrier.open_run(name, "dp-sinkhorn", chosen, num_steps=1)
            assert bool(torch.isfinite(run.gradient(images, labels)).all())
        assert barrier.budget("people").spent > 0
    stored = open_store(folder.images("people"))
    assert stored.groups is not None
    assert np.bincount(stored.groups).max() <= 4


def test_a_kill_in_the_middle_leaves_no_data_set(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos)
    os.mkfifo(tmp_path / "labels.csv")  # the command waits for its table until it is killed
    table = os.open(tmp_path / "labels.csv", os.O_RDWR)  # does not wait for a reader
    os.write(table, b"path,label\n")
    folder = initialise(tmp_path / "curator")
    for number, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "curator.cli", "dataset", "add", "digits", str(photos)),
                *("--dir", str(folder.root), *FACTS, *RECORDS),
                *("--labels", str(tmp_path / "labels.csv")),
            ],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        scratch = folder.root / "datasets" / ".adding.lock"
        until = time.monotonic() + 60
        while not scratch.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)  # the lock is taken just before the table is read
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
        scratch.unlink()
        assert process.returncode == code
        assert "Traceback" not in told
        left = {path.name for path in (folder.root / "datasets").iterdir()}
        assert left == set()
    os.close(table)
    listed = run_cli("curator", "dataset", "list", "--json", "--dir", str(folder.root))
    assert json.loads(listed.stdout) == []
