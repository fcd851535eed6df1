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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, Final

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
    start_curator,
)

CHEAP_SINKHORN: Final = SINKHORN | {"noise_multiplier": 50.0}
CHEAP_EMBEDDING: Final = EMBEDDING | {"noise_multiplier": 500.0}
HEALTH: Final = ("/healthz", "/readyz")
_ATTACKERS: Final = 3
_WINDOW_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.5
_WARM_UP_STEPS: Final = 50
_MIB: Final = 1 << 20
_NICE: Final = 15


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a load needs to know of the curator; it travels to another process."""

    root: Path
    grpc_port: int
    rest_port: int

    @property
    def attackers(self) -> tuple[str, ...]:
        return tuple(f"mallory{number}" for number in range(_ATTACKERS))

    def connect(self, name: str) -> Barrier:
        return analyst.connect(
            f"localhost:{self.grpc_port}",
            credentials=credentials(CuratorFolder(self.root), name),
            patience=600.0,
        )

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


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


def _honest(
    target: Target, seconds: Synchronized[float], ends: float, pipe: Any
) -> None:  # pragma: no cover - in a process of its own
    torch.set_num_threads(1)
    times: list[tuple[float, float]] = []
    with target.connect("alice") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", CHEAP_SINKHORN, num_steps=1_000_000)
        images, labels = batch()
        for _ in range(_WARM_UP_STEPS):
            run.gradient(images, labels)
        pipe.send("ready")
        while time.monotonic() < ends and seconds.value:
            began = time.monotonic()
            run.gradient(images, labels)
            times.append((began, time.monotonic()))
    pipe.send(times)


def _load(
    attack: Attack, target: Target, until: float, pipe: Any
) -> None:  # pragma: no cover - in a process of its own
    os.nice(_NICE)
    torch.set_num_threads(1)
    pipe.send(attack(target, until))


class _Watch:
    """Resident memory and health, asked for all the time."""

    def __init__(self, process: Process, health_port: int) -> None:
        self._process = process
        self._port = health_port
        self._tls = ssl.create_default_context(cafile=str(process.folder.identity / "ca.pem"))
        self._stop = threading.Event()
        self.codes: Counter[str] = Counter()
        self.peak = 0.0
        self._threads = [threading.Thread(target=each) for each in (self._ask, self._weigh)]

    def __enter__(self) -> _Watch:
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
                self.codes[self._code(f"https://localhost:{self._port}{path}")] += 1

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


def _rates(times: list[tuple[float, float]], begins: float, ends: float) -> list[float]:
    """Return steps a second of each window of a span."""
    number = max(1, int((ends - begins) / _WINDOW_SECONDS))
    counts = [0] * number
    for _, done in times:
        place = int((done - begins) // _WINDOW_SECONDS)
        if done >= begins and place < number:
            counts[place] += 1
    return [count / _WINDOW_SECONDS for count in counts]


def _longest(times: list[tuple[float, float]], begins: float, ends: float) -> float:
    took = sorted(done - began for began, done in times if done >= begins and began < ends)
    return took[max(0, math.ceil(0.99 * len(took)) - 1)] if took else math.inf


def measure(attack: Attack, *, alone: float, loaded: float) -> dict[str, Any]:
    """Return what an honest analyst, the memory and the health look like without and with a load.

    Args:
        attack: The load.
        alone: Seconds without it.
        loaded: Seconds with it.
    """
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="weir-load-") as root:
        folder = digits_folder(Path(root) / "curator")
        target_names = [f"mallory{number}" for number in range(_ATTACKERS)]
        for name in target_names:
            folder.add_analyst(name)
        process = start_curator(folder, Path(root) / "log")
        target = Target(root=folder.root, grpc_port=process.grpc_port, rest_port=process.rest_port)
        ours, theirs = spawn.Pipe()
        goes_on = spawn.Value("d", 1.0)
        longest = time.monotonic() + alone + loaded + 240
        honest = spawn.Process(target=_honest, args=(target, goes_on, longest, theirs))
        honest.start()
        ours.recv()
        begins = time.monotonic()
        time.sleep(alone)
        before = resident_mib(process.process.pid)
        attacks = time.monotonic()
        mine, attacker_s = spawn.Pipe()
        load = spawn.Process(
            target=_load, args=(attack, target, attacks + loaded, attacker_s), daemon=True
        )
        with _Watch(process, process.rest_port) as watch:
            load.start()
            time.sleep(loaded)
            ends = time.monotonic()
            told = mine.recv() if mine.poll(30) else "did not end"
        goes_on.value = 0.0
        alive = process.process.poll() is None
        times = ours.recv() if ours.poll(120) else []
        for one in (honest, load):
            one.terminate()
            one.join()
        process.kill()
    return _report(attack, times, (begins, attacks, ends), watch, before) | {
        "attacker": told,
        "alive": alive,
    }


def _report(
    attack: Attack,
    times: list[tuple[float, float]],
    spans: tuple[float, float, float],
    watch: _Watch,
    before: float,
) -> dict[str, Any]:
    begins, attacks, ends = spans
    settled = attacks + _WINDOW_SECONDS  # the load's own process starts
    alone = statistics.median(_rates(times, begins, attacks))
    under = statistics.median(_rates(times, settled, ends))
    return {
        "load": attack.__module__.rpartition(".")[2],
        "steps_per_second_alone": round(alone, 1),
        "steps_per_second_loaded": round(under, 1),
        "kept": round(under / alone, 3),
        "p99_seconds_loaded": round(_longest(times, settled, ends), 3),
        "resident_growth_mib": round(watch.peak - before, 1),
        "health": dict(watch.codes),
    }


def main(attack: Attack, words: str | None) -> int:
    """Run one load from the command line, and say whether it was withstood."""
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--alone", type=float, default=10.0, help="seconds without the load")
    parser.add_argument("--loaded", type=float, default=30.0, help="seconds with it")
    arguments = parser.parse_args()
    report = measure(attack, alone=arguments.alone, loaded=arguments.loaded)
    sys.stdout.write(json.dumps(report) + "\n")
    withstood = (
        report["alive"]
        and report["kept"] >= 0.5
        and report["resident_growth_mib"] <= 512
        and set(report["health"]) == {"200"}
    )
    return int(not withstood)
