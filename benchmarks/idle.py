"""What a curator takes before anybody asks it: to start, to wait, to be ready for a first step.

    python -m benchmarks.idle [--seconds 60] [--starts 3]

Times are of the processor, so that a busy machine tells the same. Compiled loops are in their cache
after the first start, which is not counted. While it waits every thread of the curator is looked
at, and those are named that took a tenth of the whole.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.rows import ROOT, about, memory_mib, print_row
from benchmarks.served import Shape, Way, served

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_IMPORTS: Final = ("curator.cli", "curator.process.bootstrap", "analyst.cli", "analyst.client.run")
_SHAPE: Final = Shape(num_records=60_000)


def processor_seconds(stat: Path) -> float:
    """Return what a process or a thread has used, itself.

    Args:
        stat: Its file in /proc; Linux only.
    """
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def threads(pid: int) -> dict[str, float]:
    """Return the seconds of every thread, by name and number."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {
        f"{(task / 'comm').read_text().strip()} {task.name}": processor_seconds(task / "stat")
        for task in tasks
    }


def imports(repeats: int) -> None:
    """Print what the imports of both programs take in an interpreter of their own."""
    for name in _IMPORTS:
        seconds = []
        for _ in range(repeats):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", f"import {name}"], cwd=ROOT, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
            seconds.append(used)
        print_row(**about(), benchmark="idle", what=f"import {name}", cpu_s=round(min(seconds), 2))


def start(repeats: int) -> None:
    """Print what `curator serve` takes until it says that it is ready, and for its first step."""
    ready, first = [], []
    for place in range(repeats + 1):
        with served(Way.UNIX, _SHAPE) as curator:
            stat = Path(f"/proc/{curator.process.pid}/stat")
            at_ready = processor_seconds(stat)
            with curator.connect() as barrier:
                run = curator.open_run(barrier, 3)
                run.gradient(*_SHAPE.batch())
                at_first = processor_seconds(stat)
        if place:
            ready.append(at_ready)
            first.append(at_first - at_ready)
    print_row(
        **about(),
        benchmark="idle",
        what="curator serve until ready",
        cpu_s=round(statistics.median(ready), 2),
        first_run_and_step_cpu_s=round(statistics.median(first), 2),
    )


def wait(seconds: float) -> None:
    """Print what a curator takes while nobody asks."""
    with served(Way.UNIX, _SHAPE) as curator:
        pid = curator.process.pid
        time.sleep(5)
        before, at = threads(pid), time.monotonic()
        time.sleep(seconds)
        after, lasted = threads(pid), time.monotonic() - at
        used = {name: value - before.get(name, 0.0) for name, value in after.items()}
        whole = sum(used.values())
        print_row(
            **about(),
            benchmark="idle",
            what="curator serve, idle",
            cpu_percent=round(100 * whole / lasted, 3),
            seconds=round(lasted, 1),
            threads={
                name.rpartition(" ")[0]: round(100 * value / lasted, 3)
                for name, value in sorted(used.items(), key=lambda one: -one[1])
                if value >= whole / 10
            },
            num_threads=len(after),
            **memory_mib(pid),
        )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--starts", type=int, default=3)
    arguments = parser.parse_args()
    imports(arguments.starts)
    start(arguments.starts)
    wait(arguments.seconds)


if __name__ == "__main__":
    main()
