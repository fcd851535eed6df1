"""A real curator in a process of its own, with random images, and one analyst's way to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import analyst
from analyst.client import Barrier, Run
from benchmarks.rows import ROOT
from curator.administration.add_dataset import add_dataset
from curator.folder import CuratorFolder, initialise
from curator.privacy.adjacency import Relation, Unit
from curator.privacy.facts import DatasetFacts

_READY = re.compile(r"grpc \S+:(\d+) ")
DATASET = "random"


class Way(StrEnum):
    """How an analyst reaches the curator."""

    LOCAL = "local socket"
    UNIX = "unix socket"
    TCP = "tcp"
    TLS = "tls"


_SOCKETS = {Way.UNIX: "unix", Way.LOCAL: "local"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Sizes of the private images and of a run's steps."""

    side: int = 28
    num_records: int = 6000
    num_samples: int = 50
    num_debias: int = 0
    capacity: int = 96

    @property
    def sampling_rate(self) -> float:
        """Of a batch of as many records as samples."""
        return self.num_samples / self.num_records

    def parameters(self) -> dict[str, Any]:
        """Return the published parameters, with noise that affords many steps."""
        return {
            "sampling_rate": self.sampling_rate,
            "capacity": self.capacity,
            "num_samples": self.num_samples,
            "num_debias": self.num_debias,
            "clip_norm": 0.5,
            "noise_multiplier": 5.0,
            "reg": 0.05,
            "l1_weight": 1.0,
            "label_scale": 15.0,
            "schedule": "published",
        }

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return images and labels as a generator would make them."""
        rows = self.num_samples + self.num_debias
        images = torch.rand((rows, 1, self.side, self.side)) * 2 - 1
        return images, torch.arange(rows) % 10


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ServedCurator:
    """A curator that answers."""

    folder: CuratorFolder
    process: subprocess.Popen[str]
    port: int
    way: Way
    shape: Shape

    def connect(self) -> Barrier:
        """Return the barrier as the analyst of the credentials sees it."""
        target = f"localhost:{self.port}"
        if self.way in _SOCKETS:
            target = f"{_SOCKETS[self.way]}:{self.folder.root / 'g.sock'}"
        credentials = self.folder.root / "analysts" / "a.credentials.json"
        return analyst.connect(
            target, credentials=credentials, insecure_loopback=self.way is Way.TCP
        )

    def open_run(self, barrier: Barrier, num_steps: int) -> Run:
        """Open a run of the shape's parameters.

        Args:
            barrier: Of `connect`.
            num_steps: Declared.
        """
        return barrier.open_run(
            DATASET, "dp-sinkhorn", self.shape.parameters(), num_steps=num_steps
        )


@contextmanager
def served(
    way: Way,
    shape: Shape,
    *,
    module: str = "curator.cli",
    device: str = "cpu",
    slot_ms: float = 0.0,
) -> Iterator[ServedCurator]:
    """Serve random images until the end of the block; the folder is thrown away.

    Args:
        way: How analysts will come.
        shape: Of the images.
        module: What to start: the curator, or one with an empty barrier.
        device: Where the curator computes.
        slot_ms: In which answers leave; 0 when they are ready.
    """
    root = Path(tempfile.mkdtemp(prefix="weir-"))
    try:
        folder = make_folder(root / "c", shape)
        text = folder.config.read_text()
        text = text.replace('device = "cpu"', f'device = "{device}"')
        text = text.replace("response_slot_ms = 0.0", f"response_slot_ms = {slot_ms}")
        folder.config.write_text(text)
        arguments = ["--dir", str(folder.root), "--grpc-port", "0", "--rest-port", "0"]
        if way in _SOCKETS:
            arguments += ["--grpc-unix-socket", str(folder.root / "g.sock")]
        if way is not Way.TLS:
            arguments += ["--insecure-loopback"]
        with (root / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, "serve", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        try:
            yield ServedCurator(
                folder=folder,
                process=process,
                port=_port(process, root / "log"),
                way=way,
                shape=shape,
            )
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def make_folder(root: Path, shape: Shape) -> CuratorFolder:
    """Return a curator's folder with random images and one analyst.

    Args:
        root: Where to.
        shape: Of the images.
    """
    folder = initialise(root)
    generator = np.random.default_rng(0)
    sizes = (shape.num_records, shape.side, shape.side)
    source = root / "source.npz"
    np.savez(
        source,
        images=generator.integers(0, 256, sizes, dtype=np.uint8),
        labels=np.arange(shape.num_records) % 10,
    )
    add_dataset(folder, facts(shape), str(source))
    source.unlink()
    folder.add_analyst("a")
    return folder


def facts(shape: Shape) -> DatasetFacts:
    """Return what a steward would declare.

    Args:
        shape: Of the images.
    """
    return DatasetFacts(
        name=DATASET,
        channels=1,
        height=shape.side,
        width=shape.side,
        max_level=255,
        classes=tuple("0123456789"),
        nominal_size=shape.num_records,
        max_size=shape.num_records + 1000,
        sampling_rate=shape.sampling_rate,
        capacity=shape.capacity,
        relation=Relation.ADD_OR_REMOVE,
        unit=Unit.RECORD,
        epsilon=20.0,
        delta=1e-6,
    )


def _port(process: subprocess.Popen[str], log: Path) -> int:
    line = process.stdout.readline() if process.stdout is not None else ""
    found = _READY.search(line)
    if found is None:
        process.wait(60)
        msg = f"the curator did not start: {line!r} {log.read_text()[-2000:]}"
        raise SystemExit(msg)
    return int(found[1])
