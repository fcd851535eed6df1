"""Ratios that a change must not spoil; a machine that is busy slows both sides of each.

The benchmarks let the two sides take turns, and the least of many calls is compared: noise only
ever adds time. Bounds are far from what a quiet machine shows, so that only a real loss fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parent.parent.parent
TRIES = 2


def rows(name: str, *arguments: str) -> list[dict[str, Any]]:
    result = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def least(found: list[dict[str, Any]], key: str) -> dict[Any, float]:
    return {row[key]: row["least_ms"] for row in found if "least_ms" in row}


def test_compiled_loops_are_at_least_four_times_as_fast_as_geomloss() -> None:
    ratios = []
    for _ in range(TRIES):
        found = rows("barrier", "--repeats", "25")
        errors = {row["what"]: row["error"] for row in found if "error" in row}
        assert errors["weir numba"] <= errors["geomloss"]
        times = least(found, "what")
        ratios.append(times["geomloss"] / times["weir numba"])
        if ratios[-1] >= 4:
            return
    raise AssertionError(ratios)


def test_the_rpc_keeps_a_fair_part_of_a_bare_stream() -> None:
    shares = []
    for _ in range(TRIES):
        found = rows("transport", "--steps", "150", "--ways", "tls", "--rpc-only")
        times = least(found, "what")
        shares.append(times["bare echo"] / times["rpc alone"])
        if shares[-1] >= 0.3:
            return
    raise AssertionError(shares)


def test_a_step_costs_the_same_whatever_the_size_of_the_private_set() -> None:
    ratios = []
    for _ in range(TRIES):
        found = rows("scaling", "--what", "set", "--sizes", "10000", "1000000", "--repeats", "60")
        times = least(found, "num_records")
        ratios.append(times[1_000_000] / times[10_000])
        if ratios[-1] <= 1.25:
            return
    raise AssertionError(ratios)
