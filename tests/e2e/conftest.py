"""Real curators: one in this process for what must be planted or watched, and real processes."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import analyst
from analyst.client import Barrier
from curator.administration.add_dataset import add_dataset
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.folder import CuratorFolder, initialise
from curator.privacy.facts import DatasetFacts
from curator.process.bootstrap import ServingCurator, create_curator
from tests.e2e import forks
from tests.e2e.forks import Forked
from tests.fakes.facts import small_facts

ROOT = Path(__file__).resolve().parent.parent.parent
READY_SECONDS = 60

SINKHORN: dict[str, Any] = {
    "sampling_rate": 40 / 1437,
    "capacity": 96,
    "num_samples": 10,
    "num_debias": 2,
    "clip_norm": 0.5,
    "noise_multiplier": 1.0,
    "reg": 0.05,
    "l1_weight": 1.0,
    "label_scale": 15.0,
    "schedule": "published",
}
EMBEDDING: dict[str, Any] = {
    "num_features": 20,
    "bandwidths": [2.5],
    "feature_seed": 1,
    "noise_multiplier": 3.0,
    "count_scale": 0.5,
}


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        forks.start_for_workers()


def digits_facts(name: str = "digits", epsilon: float = 10.0) -> DatasetFacts:
    """Declare a set of as many images as the digits are, of their shape."""
    return small_facts(
        name=name,
        height=8,
        width=8,
        classes=tuple("0123456789"),
        nominal_size=1437,
        max_size=2000,
        sampling_rate=40 / 1437,
        capacity=96,
        epsilon=epsilon,
        delta=1e-4,
    )


def digits_folder(root: Path, *, epsilon: float = 10.0) -> CuratorFolder:
    """Copy a curator's folder with the digits and two analysts: making one takes ten times as long.

    All copies have the same keys, and a ledger in SQLite.
    """
    shutil.copytree(_made_once(epsilon), root)
    return CuratorFolder(root)


def another_digits_folder(root: Path, *, epsilon: float = 10.0) -> CuratorFolder:
    """Make one with keys of its own, where there may be a configuration already."""
    folder = initialise(root)
    add_dataset(folder, digits_facts(epsilon=epsilon), "sklearn:digits-private")
    folder.add_analyst("alice")
    folder.add_analyst("bob")
    return folder


@functools.cache
def _made_once(epsilon: float) -> Path:
    parent = Path(tempfile.mkdtemp(prefix="weir-digits-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    return another_digits_folder(parent / "curator", epsilon=epsilon).root


def credentials(folder: CuratorFolder, name: str) -> Path:
    return folder.root / "analysts" / f"{name}.credentials.json"


def token(folder: CuratorFolder, name: str) -> str:
    value: str = json.loads(credentials(folder, name).read_text())["token"]
    return value


def socket_of(folder: CuratorFolder) -> Path:
    """Return where a curator of the folder has its sockets: a short path, the same each time."""
    name = hashlib.sha256(os.fsencode(folder.root)).hexdigest()[:12]
    parent = Path(tempfile.gettempdir()) / f"weir-{name}"
    if not parent.exists():
        parent.mkdir(mode=0o700)
        atexit.register(shutil.rmtree, parent, ignore_errors=True)
    return parent / "g.sock"


OVER_BOTH_WIRES = pytest.mark.parametrize("wire", ["grpc", "local"])
"""For tests of steps: over gRPC with TLS, and over the socket for steps."""


@pytest.fixture
def wire() -> str:
    """Return how steps go; `OVER_BOTH_WIRES` takes its place."""
    return "grpc"


def batch(rows: int = 12, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand((rows, 1, 8, 8), generator=generator) * 2 - 1
    return images, torch.arange(rows) % 10


@dataclass(frozen=True, kw_only=True)
class Local:
    """A curator in this process."""

    folder: CuratorFolder
    curator: ServingCurator
    wire: str = "grpc"

    @property
    def target(self) -> str:
        if self.wire == "local":
            return f"local:{self.curator.rpc.unix_socket}"
        return f"localhost:{self.curator.rpc.port}"

    def connect(self, name: str = "alice", **options: Any) -> Barrier:
        return analyst.connect(
            self.target, credentials=credentials(self.folder, name), patience=5.0, **options
        )


@pytest.fixture
def local(tmp_path: Path, wire: str) -> Iterator[Local]:
    folder = digits_folder(tmp_path / "curator")
    unix_socket = str(socket_of(folder)) if wire == "local" else ""
    config = CuratorConfig(
        grpc=GrpcSection(port=0, unix_socket=unix_socket), rest=RestSection(port=0)
    )
    curator = create_curator(folder, config)
    curator.start()
    yield Local(folder=folder, curator=curator, wire=wire)
    curator.draining.set()
    curator.wait()


@dataclass(kw_only=True)
class Process:
    """A curator in a process of its own."""

    folder: CuratorFolder
    process: Forked
    grpc_port: int
    rest_port: int
    wire: str = "grpc"

    def kill(self) -> None:
        """Kill -9: no handler runs."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    @property
    def target(self) -> str:
        if self.wire == "local":
            return f"local:{socket_of(self.folder)}"
        return f"localhost:{self.grpc_port}"

    def connect(self, name: str = "alice", **options: Any) -> Barrier:
        return analyst.connect(self.target, credentials=credentials(self.folder, name), **options)


def start_curator(
    folder: CuratorFolder, log_path: Path, *arguments: str, grpc_port: int = 0
) -> Process:
    """Start `curator serve` and wait for its ready line."""
    words = ("serve", "--dir", str(folder.root), "--grpc-port", str(grpc_port), "--rest-port", "0")
    reading, writing = os.pipe()
    with log_path.open("w") as log:
        process = Forked(("curator", *words, *arguments), stdout=writing, stderr=log.fileno())
    os.close(writing)
    with os.fdopen(reading) as ready:
        line = ready.readline()
    found = re.search(r"grpc \S+:(\d+) rest \S+:(\d+)", line)
    assert found, f"not ready: {line!r}, exit code {process.poll()}"
    return Process(folder=folder, process=process, grpc_port=int(found[1]), rest_port=int(found[2]))


@pytest.fixture
def serve(tmp_path: Path, wire: str) -> Iterator[Callable[..., Process]]:
    """Return a function that starts `curator serve` and waits for its ready line."""
    started: list[Process] = []

    def start(folder: CuratorFolder, *arguments: str, grpc_port: int = 0) -> Process:
        log_path = tmp_path / f"curator-{len(started)}.log"
        if wire == "local":
            arguments = ("--grpc-unix-socket", str(socket_of(folder)), *arguments)
        started.append(start_curator(folder, log_path, *arguments, grpc_port=grpc_port))
        started[-1].wire = wire
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


def run_cli(
    package: str, *arguments: str, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run one command of the curator or the analyst."""
    return forks.run([package, *arguments], timeout=timeout)
