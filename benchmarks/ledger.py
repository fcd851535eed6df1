"""What charging costs: CPU and wall time of one block, at the largest block of steps.

A block is `advance_mark` and the `statement` that the curator reads after it. Prints one JSON row
for each number of runs that the data set has behind it. `--location` is a new SQLite file or the
URL of an empty PostgreSQL schema; the default is a temporary file. The client's CPU time is
measured; a PostgreSQL server has its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.clock import utc_now
from curator.ledger.anchor import HeadAnchor
from curator.ledger.datasets_and_runs import DatasetRegistration, RunOpening
from curator.ledger.sql_ledger import SqlLedger
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

BLOCK = 4096
STEPS_PER_SECOND = 10_000


def opening(name: str, num_steps: int) -> RunOpening:
    """Return a run of cheap steps."""
    return RunOpening.of_events(
        run_id=name,
        dataset="d",
        analyst="a",
        mechanism="m",
        parameters_json="{}",
        setup_event=NoEvent(),
        step_event=SampledGaussianEvent(
            sampling_rate=SamplingRate.at_least(1e-6), noise_multiplier=10.0
        ),
        num_steps=num_steps,
    )


def timed(work: Callable[[int], object], repeats: int) -> tuple[float, float]:
    """Return the CPU seconds of one call on average, and the median of its wall seconds."""
    work(1)
    walls, cpu = [], time.process_time()
    for i in range(2, repeats + 2):
        started = time.perf_counter()
        work(i)
        walls.append(time.perf_counter() - started)
    return (time.process_time() - cpu) / repeats, statistics.median(walls)


def measure(ledger: SqlLedger, closed: int, repeats: int) -> dict[str, object]:
    """Return the numbers of a data set with `closed` runs behind it."""
    name = f"run-{closed}"
    run = ledger.open_run(opening(name, BLOCK * (repeats + 2)), "h")

    def block(i: int) -> None:
        ledger.advance_mark(name, "h", run.epoch, BLOCK * i)
        ledger.statement("d")

    cpu, wall = timed(block, repeats)
    ledger.close_run(name, "h", run.epoch, 0, "measured")
    started = time.perf_counter()
    ledger.verify()
    return {
        "closed_runs": closed,
        "block_steps": BLOCK,
        "block_cpu_ms": round(1000 * cpu, 3),
        "block_wall_ms": round(1000 * wall, 3),
        "core_percent_at_10000_steps_per_s": round(100 * cpu * STEPS_PER_SECOND / BLOCK, 3),
        "verify_wall_s": round(time.perf_counter() - started, 3),
        "machine": platform.processor() or platform.machine(),
    }


def close_runs(ledger: SqlLedger, first: int, last: int) -> None:
    """Put closed runs behind the data set."""
    for i in range(first, last):
        run = ledger.open_run(opening(f"closed-{i}", 1), "h")
        ledger.advance_mark(run.run_id, "h", run.epoch, 1)
        ledger.close_run(run.run_id, "h", run.epoch, 1, "closed")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--location", default="")
    parser.add_argument("--closed", type=int, nargs="+", default=[0, 100, 1000])
    parser.add_argument("--repeats", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        location = arguments.location or str(Path(folder) / "ledger.sqlite")
        anchor = HeadAnchor(Path(folder) / "head.json")
        if location.startswith("postgresql://"):
            ledger = SqlLedger.open_database(location, utc_now, anchor)
        else:
            ledger = SqlLedger.open_writer(Path(location), utc_now, anchor)
        ledger.register_dataset(
            DatasetRegistration(
                name="d",
                budget=Budget(epsilon=20.0, delta=1e-6),
                adjacency=Adjacency(relation=Relation.ADD_OR_REMOVE, unit=Unit.RECORD),
                facts_json="{}",
            )
        )
        before = 0
        for closed in sorted(arguments.closed):
            close_runs(ledger, before, closed)
            before = closed
            print(json.dumps(measure(ledger, closed, arguments.repeats)))
        ledger.close()


if __name__ == "__main__":
    main()
