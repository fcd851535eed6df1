"""Several runs at once on one curator: who waits, what it costs, and whether the budget is exact.

    python -m benchmarks.concurrency [--runs 1 4 16] [--seconds 8]

Each analyst is a thread with a connection and a stream of its own. `slowest_over_mean` is 1 where
nobody waits longer than the others. The budget is exact if the ledger has charged, for the closed
runs, the steps that were answered and no more.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from contextlib import ExitStack

from analyst.client import Barrier, Run
from benchmarks.rows import compute_as_the_curator, memory_mib, print_row
from benchmarks.served import DATASET, ServedCurator, Shape, Way, served
from curator.administration.open_ledger import open_ledger_reader
from curator.config import load_config

_SHAPE = Shape()
_NUM_STEPS = 1200


def answered(run: Run, seconds: float, start: threading.Barrier) -> int:
    """Return how many steps a run got answered.

    Args:
        run: Open.
        seconds: How long to ask.
        start: Lets all begin together.
    """
    images, labels = _SHAPE.batch()
    start.wait()
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until and count < _NUM_STEPS:
        run.gradient(images, labels)
        count += 1
    return count


def measure(num_runs: int, seconds: float) -> None:
    """Print the row of one curator.

    Args:
        num_runs: Runs at once.
        seconds: How long.
    """
    with served(Way.TCP, _SHAPE) as curator, ExitStack() as stack:
        before = memory_mib(curator.process.pid)["own_mib"]
        barriers = [stack.enter_context(curator.connect()) for _ in range(num_runs)]
        runs = [curator.open_run(barrier, _NUM_STEPS) for barrier in barriers]
        counts = _all_at_once(runs, seconds)
        after = memory_mib(curator.process.pid)["own_mib"]
        for run in runs:
            run.close()
        exact = _charged(curator, barriers[0]) == sorted(counts)
    print_row(
        benchmark="concurrency",
        runs=num_runs,
        steps_per_second=round(sum(counts) / seconds, 1),
        slowest_over_mean=round(min(counts) / statistics.fmean(counts), 3),
        budget_exact=exact,
        own_mib_before=before,
        own_mib_per_run=round((after - before) / num_runs, 2),
        seconds=seconds,
    )


def _all_at_once(runs: list[Run], seconds: float) -> list[int]:
    start = threading.Barrier(len(runs))
    counts = [0] * len(runs)

    def ask(place: int) -> None:
        counts[place] = answered(runs[place], seconds, start)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def _charged(curator: ServedCurator, barrier: Barrier) -> list[int]:
    """Return the charged steps of every run; nothing beyond them may be reserved any more.

    Raises:
        SystemExit: If something is.
    """
    budget = barrier.budget(DATASET)
    if budget.reserved != budget.spent:
        msg = "something is reserved although every run is closed"
        raise SystemExit(msg)
    ledger = open_ledger_reader(curator.folder, load_config(curator.folder.config))
    try:
        return sorted(run.used for run in ledger.runs())
    finally:
        ledger.close()


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=8.0)
    arguments = parser.parse_args()
    compute_as_the_curator()
    for num_runs in arguments.runs:
        measure(num_runs, arguments.seconds)


if __name__ == "__main__":
    main()
