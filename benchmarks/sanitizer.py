"""Samples per second of the discrete Gaussian, beside torch, numpy and OpenDP, in one run.

Prints one JSON row for each. OpenDP is optional: `pip install opendp`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from curator.sanitizer.clipped import release_clipped
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.lattice import LATTICE_STD

ROOT = Path(__file__).resolve().parent.parent
VALUES = 50 * 784


def median_seconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median and the spread (interquartile range) of single calls."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    low, _, high = statistics.quantiles(times, n=4)
    return statistics.median(times), high - low


def contenders() -> dict[str, tuple[int, Callable[[], object]]]:
    """Return how many values each draws, and how."""
    noise, generator = OsEntropy(), np.random.default_rng(0)
    matrix = torch.full((50, 784), 0.1)
    found: dict[str, tuple[int, Callable[[], object]]] = {
        "weir discrete gaussian": (VALUES, lambda: noise.discrete_gaussian(VALUES)),
        "torch.randn (not exact, not secret)": (VALUES, lambda: torch.randn(VALUES)),
        "numpy standard_normal (not exact, not secret)": (
            VALUES,
            lambda: generator.standard_normal(VALUES),
        ),
        "weir release: clip, certify, noise": (
            VALUES,
            lambda: release_clipped(
                lambda: matrix, shape=(50, 784), clip_norm=0.5, noise_multiplier=1.1, noise=noise
            ),
        ),
    }
    try:
        import opendp.prelude as dp
    except ImportError:
        return found
    dp.enable_features("contrib")
    few = 500  # its sampler is exact by rejection in big rationals, one value at a time
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measurement = space >> dp.m.then_gaussian(scale=LATTICE_STD)
    zeros = [0] * few
    found["opendp discrete gaussian"] = (few, lambda: measurement(zeros))
    return found


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy")}
    baseline = 0.0
    for name, (values, work) in contenders().items():
        repeats = arguments.repeats if values == VALUES else 10
        seconds, spread = median_seconds(work, repeats)
        rate = values / seconds
        baseline = baseline or rate
        row = {
            "what": name,
            "million_per_second": round(rate / 1e6, 4),
            "ratio_to_weir": round(rate / baseline, 5),
            "values": values,
            "median_ms": round(seconds * 1e3, 4),
            "spread_ms": round(spread * 1e3, 4),
            "repeats": repeats,
            "threads": 1,
            "machine": platform.machine(),
            "commit": commit,
            **versions,
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
