"""One honest analyst beside a load: how fast it steps, what the curator keeps, what health says.

A load runs in a process of its own, at low priority, so that its own work is not what slows the
honest analyst down where both share a machine.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import ssl
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final, Self

import grpc
import torch

import analyst
from analyst.client import Barrier
from curator.folder import CuratorFolder
from tests.e2e.conftest import (
    EMBEDDING,
    SINKHORN,
    Process,
    batch,
    credentials,
    digits_folder,
    socket_of,
    start_curator,
)

CHEAP_SINKHORN: Final = SINKHORN | {"noise_multiplier": 50.0}
CHEAP_EMBEDDING: Final = EMBEDDING | {"noise_multiplier": 500.0}
HEALTH: Final = ("/healthz", "/readyz")
ATTACKERS: Final = 3
_WINDOW_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.5
_WARM_UP_STEPS: Final = 50
_SLACK_SECONDS: Final = 60.0
_SETTLING_SECONDS: Final = 3.0  # after the load
_NICE: Final = 15


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a load needs to know of the curator; it travels to another process."""

    root: Path
    grpc_port: int
    rest_port: int
    wire: str = "grpc"

    @property
    def attackers(self) -> tuple[str, ...]:
        return tuple(f"mallory{number}" for number in range(ATTACKERS))

    def connect(self, name: str) -> Barrier:
        folder, target = CuratorFolder(self.root), f"localhost:{self.grpc_port}"
        if self.wire == "local":
            target = f"local:{socket_of(folder)}"
        return analyst.connect(target, credentials=credentials(folder, name), patience=600.0)

    def metadata(self, name: str) -> tuple[tuple[str, str], ...]:
        content = json.loads(credentials(CuratorFolder(self.root), name).read_text())
        return (("authorization", f"Bearer {content['token']}"),)

    def channel(self) -> grpc.Channel:
        root = (self.root / "identity" / "ca.pem").read_bytes()
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
        ]
        tls = grpc.ssl_channel_credentials(root)
        return grpc.secure_channel(f"localhost:{self.grpc_port}", tls, options=options)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.root / "identity" / "ca.pem"))


Attack = Callable[[Target, float], Any]
"""Loads a curator until a monotonic time; what it returns is reported."""


Work = Callable[[Target, str, float, "Counter[str]"], None]


def together(work: Work, target: Target, names: Iterable[str], until: float) -> dict[str, int]:
    """Do the same for several callers at once, or several times for one; return what is counted."""
    told: Counter[str] = Counter()
    threads = [
        threading.Thread(target=work, args=(target, name, until, told), daemon=True)
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(told)


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


def _honest(target: Target, goes_on: Synchronized[float], ends: float, pipe: Any) -> None:
    torch.set_num_threads(1)
    times: list[tuple[float, float]] = []
    with target.connect("alice") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", CHEAP_SINKHORN, num_steps=1_000_000)
        images, labels = batch()
        for _ in range(_WARM_UP_STEPS):
            run.gradient(images, labels)
        pipe.send("ready")
        while time.monotonic() < ends and goes_on.value:
            began = time.monotonic()
            run.gradient(images, labels)
            times.append((began, time.monotonic()))
    pipe.send(times)


def _load(attack: Attack, target: Target, seconds: float, pipe: Any) -> None:
    os.nice(_NICE)
    torch.set_num_threads(1)
    pipe.send("begins")
    pipe.send(attack(target, time.monotonic() + seconds))


class _Watch:
    """Resident memory and health, asked for all the time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tls = ssl.create_default_context(cafile=str(process.folder.identity / "ca.pem"))
        self._stop = threading.Event()
        self.codes: Counter[str] = Counter()
        self.peak = 0.0
        self._threads = [threading.Thread(target=each) for each in (self._ask, self._weigh)]

    def __enter__(self) -> Self:
        self.peak = resident_mib(self._process.process.pid)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            for path in HEALTH:
                self.codes[self._code(f"https://localhost:{self._process.rest_port}{path}")] += 1

    def _code(self, url: str) -> str:
        try:
            with urllib.request.urlopen(url, timeout=5, context=self._tls) as answer:
                return str(answer.status)
        except urllib.error.HTTPError as error:
            return str(error.code)
        except OSError as error:
            return type(error).__name__

    def _weigh(self) -> None:
        while not self._stop.wait(0.1):
            with suppress(OSError, StopIteration):  # it was killed, which is seen elsewhere
                self.peak = max(self.peak, resident_mib(self._process.process.pid))


def measure(attack: Attack, *, alone: float, loaded: float, wire: str = "grpc") -> dict[str, Any]:
    """Return what an honest analyst, the memory and the health look like without and with a load.

    Args:
        attack: The load.
        alone: Seconds without it.
        loaded: Seconds with it.
        wire: How steps go, the honest analyst's and those that a load sends as any client does.
    """
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="weir-load-") as root:
        folder = digits_folder(Path(root) / "curator")
        for number in range(ATTACKERS):
            folder.add_analyst(f"mallory{number}")
        unix_socket = ("--grpc-unix-socket", str(socket_of(folder)))
        process = start_curator(folder, Path(root) / "log", *unix_socket)
        target = Target(
            root=folder.root,
            grpc_port=process.grpc_port,
            rest_port=process.rest_port,
            wire=wire,
        )
        ours, theirs = spawn.Pipe()
        goes_on = spawn.Value("d", 1.0)
        latest = time.monotonic() + alone + loaded + _SLACK_SECONDS
        honest = spawn.Process(target=_honest, args=(target, goes_on, latest, theirs))
        honest.start()
        ours.recv()
        alone_before = _span(alone / 2)
        told, under, watch, before = _loaded(attack, target, process, loaded)
        time.sleep(_SETTLING_SECONDS)
        alone_after = _span(alone / 2)
        goes_on.value = 0.0
        alive = process.process.poll() is None
        times = ours.recv() if ours.poll(_SLACK_SECONDS) else []
        honest.terminate()
        honest.join()
        process.kill()
    return {
        "load": Path(sys.modules[attack.__module__].__file__ or "").stem,
        **_rates(times, (alone_before, alone_after), under),
        "resident_growth_mib": round(watch.peak - before, 1),
        "health": dict(watch.codes),
        "attacker": told,
        "alive": alive,
    }


def _loaded(
    attack: Attack, target: Target, process: Process, seconds: float
) -> tuple[Any, tuple[float, float], _Watch, float]:
    """Return what the load told, when it began and ended, what was seen, and the memory before."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    load = spawn.Process(target=_load, args=(attack, target, seconds, theirs), daemon=True)
    load.start()
    ours.recv()
    before = resident_mib(process.process.pid)
    with _Watch(process) as watch:
        span = _span(seconds)
        told = ours.recv() if ours.poll(_SLACK_SECONDS) else "did not end"
    load.terminate()
    load.join()
    return told, span, watch, before


def _span(seconds: float) -> tuple[float, float]:
    """Wait, and return when that began and ended."""
    begins = time.monotonic()
    time.sleep(seconds)
    return begins, time.monotonic()


def _rates(
    times: list[tuple[float, float]],
    without: tuple[tuple[float, float], ...],
    under: tuple[float, float],
) -> dict[str, float]:
    """Return the median of steps a second over windows, before and after the load, and under it."""
    alone = statistics.median([rate for span in without for rate in _windows(times, *span)])
    loaded = statistics.median(_windows(times, *under))
    took = sorted(done - began for began, done in times if under[0] <= done <= under[1])
    return {
        "steps_per_second_alone": round(alone, 1),
        "steps_per_second_loaded": round(loaded, 1),
        "kept": round(loaded / alone, 3) if alone else math.nan,
        "p99_seconds_loaded": round(took[math.ceil(0.99 * len(took)) - 1], 3) if took else math.inf,
    }


def _windows(times: list[tuple[float, float]], begins: float, ends: float) -> list[float]:
    counts = [0] * max(1, int((ends - begins) / _WINDOW_SECONDS))
    for _, done in times:
        place = int((done - begins) // _WINDOW_SECONDS)
        if 0 <= place < len(counts):
            counts[place] += 1
    return [count / _WINDOW_SECONDS for count in counts]


def main(attack: Attack, words: str | None) -> int:
    """Run one load from the command line, and say whether it was withstood."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--alone", type=float, default=20.0, help="seconds without the load")
    parser.add_argument("--loaded", type=float, default=30.0, help="seconds with it")
    parser.add_argument("--wire", choices=["grpc", "local"], default="grpc")
    arguments = parser.parse_args()
    report = measure(attack, alone=arguments.alone, loaded=arguments.loaded, wire=arguments.wire)
    sys.stdout.write(json.dumps(report) + "\n")
    withstood = (
        report["alive"]
        and report["kept"] >= 0.5
        and report["resident_growth_mib"] <= 512
        and set(report["health"]) == {"200"}
    )
    return int(not withstood)
