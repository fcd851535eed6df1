"""What every benchmark prints: JSON rows of medians, with the machine and the commit.

Works that are compared take turns, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("torch", "numpy", "grpcio", "numba", "geomloss")

Work = Callable[[], object]


def compute_as_the_curator(threads: int = 1) -> None:
    """Let tensors here be computed as in a curator: numbers below 1e-38 count as zero.

    Args:
        threads: For each operation.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


def print_row(**values: object) -> None:
    """Print one row."""
    print(json.dumps({**values, **_machine()}), flush=True)


def timed(works: Mapping[str, Work], repeats: int, in_a_row: int = 1) -> dict[str, list[float]]:
    """Return the seconds of single calls, after one call of each that does not count.

    Args:
        works: By name; they take turns.
        repeats: Turns of each.
        in_a_row: Calls in a turn, for works that follow each other at once where they are used.
    """
    for work in works.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            for _ in range(in_a_row):
                started = time.perf_counter()
                work()
                seconds[name].append(time.perf_counter() - started)
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    """Return the median, the distance of the quartiles and the least, in milliseconds.

    Args:
        seconds: Of single calls, at least two.
    """
    low, _, high = statistics.quantiles(seconds, n=4)
    return {
        "median_ms": round(1e3 * statistics.median(seconds), 4),
        "quartiles_ms": round(1e3 * (high - low), 4),
        "least_ms": round(1e3 * min(seconds), 4),
    }


def memory_mib(pid: int | str = "self") -> dict[str, float]:
    """Return the memory of a process, its own and that of mapped files.

    Args:
        pid: Of the process; Linux only.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = {line.split(":")[0]: float(line.split()[1]) for line in lines if line.endswith(" kB")}
    return {
        "own_mib": round(kib["RssAnon"] / 1024, 1),
        "mapped_mib": round(kib["RssFile"] / 1024, 1),
    }


def about() -> dict[str, str]:
    """Return what a committed row has besides: how, when and on what it was measured."""
    command = shlex.join(sys.orig_argv[1:])
    return {
        "command": f"python {command}",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": processor(),
    }


def processor() -> str:
    """Return the processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # of another machine, for one benchmark
        return None


def _machine() -> dict[str, object]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "machine": platform.machine(),
        "commit": commit,
        **{name: _version(name) for name in _PACKAGES},
    }
