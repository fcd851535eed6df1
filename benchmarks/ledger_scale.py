"""What a ledger's calls cost with many closed runs behind it, and how long it takes to open.

Builds a ledger, opens it and prints JSON rows: one for each opening with the memory that stays, one
for each call (median, and `statements`, what it asks of the database), and one for an export.

`--marks` are charges of each run: `--closed 1000 --marks 998` has about a million entries. A ledger
is opened twice, in processes of their own: with no checkpoint, and with the one that this left, if
the ledger is large enough for one. `--location` is the URL of an empty PostgreSQL schema; the
default is a file in a temporary folder (`TMPDIR`), with its synced writes.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event

from benchmarks.ledger_builder import DATASET, FACTS, HOLDER, analyst, build, opening
from benchmarks.rows import memory_mib, print_row, processor, summary
from curator.clock import utc_now
from curator.ledger import connect, postgres
from curator.ledger.anchor import HeadAnchor
from curator.ledger.checkpoint import Checkpoint
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.history import History
from curator.overview.metrics import measure
from curator.overview.queries import list_runs, page_of_runs
from curator.overview.summary import Shown, overview
from curator.rest.pages import Page
from curator.service.caller import Caller, Role
from curator.service.served_datasets import ServedDataset, ServedDatasets
from curator.telemetry.requests import Telemetry

_STEWARD: Final = Caller("steward", Role.STEWARD)
_ANALYST: Final = Caller(analyst(7), Role.ANALYST)
_PAGE: Final = 100


def open_ledger(location: str, folder: Path, history: History) -> SqlLedger:
    """Open the ledger as a curator does.

    Args:
        location: URL of a database, or empty for the file in the folder.
        folder: With the head that is kept outside.
        history: Sees every entry.
    """
    anchor = HeadAnchor(folder / "head.json")
    known = Checkpoint(folder / "checkpoint", history)
    if location:
        return SqlLedger.open_database(location, utc_now, anchor, known)
    return SqlLedger.open_writer(folder / "ledger.sqlite", utc_now, anchor, known)


def fill(location: str, folder: Path, closed: int, marks: int) -> None:
    """Build the ledger.

    Args:
        location: URL of a database, or empty for a file in the folder.
        folder: Of the file.
        closed: Closed runs.
        marks: Charges of each.
    """
    if location:
        engine = postgres.maintenance_engine(postgres.database_url(location))
    else:
        connect.make_private_file(folder / "ledger.sqlite")
        engine = connect.writer_engine(folder / "ledger.sqlite")
    build(engine, closed, marks)
    if location:
        with engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE")
    engine.dispose()


def measure_start(location: str, folder: Path, about: dict[str, Any]) -> tuple[SqlLedger, History]:
    """Open the ledger, and print how long that takes and the memory that stays.

    Args:
        location: URL of a database, or empty.
        folder: Of the file.
        about: For the row.
    """
    history, before = History(), memory_mib()["own_mib"]
    has_checkpoint = (folder / "checkpoint").exists()
    started, cpu = time.perf_counter(), time.process_time()
    ledger = open_ledger(location, folder, history)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print_row(
        **about,
        what="start from a checkpoint" if has_checkpoint else "start, all replayed",
        entries=ledger.head()[0],
        wall_s=round(seconds, 2),
        cpu_s=round(cpu, 2),
        added_mib=round(memory_mib()["own_mib"] - before, 1),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )
    return ledger, history


def measure_calls(ledger: SqlLedger, history: History, about: dict[str, Any], repeats: int) -> None:
    """Print what each call costs.

    Args:
        ledger: Opened for writing.
        history: Of the same ledger.
        about: For every row.
        repeats: Calls of each kind.
    """
    counted = [0]
    connections = ledger._store._store  # noqa: SLF001 - counts only
    for engine in (connections._reader, connections._writer):  # noqa: SLF001
        event.listen(engine, "before_cursor_execute", lambda *_: counted.append(counted.pop() + 1))
    for what, call in calls(ledger, history, about["closed_runs"]):
        call()
        counted[0], times, cpu = 0, [], time.process_time()
        for _ in range(repeats):
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
        cpu = 1000 * (time.process_time() - cpu) / repeats
        counts = {"statements": counted[0] / repeats, "cpu_ms": round(cpu, 3)}
        print_row(**about, what=what, **counts, **summary(times))


def measure_export(ledger: SqlLedger, about: dict[str, Any]) -> None:
    """Print how long an export takes, and its check.

    Args:
        ledger: That is exported.
        about: For both rows.
    """
    works: dict[str, Callable[[], object]] = {
        "export": lambda: deque(export_jsonl(ledger), maxlen=1),
        "export and verify": lambda: verify_export(export_jsonl(ledger)),
    }
    for what, work in works.items():
        started, cpu = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        row = {"wall_s": round(seconds, 2), "cpu_s": round(cpu, 2), "peak_mib": peak}
        print_row(**about, what=what, **row)


def calls(
    ledger: SqlLedger, history: History, closed: int
) -> list[tuple[str, Callable[[], object]]]:
    """Return what is measured, by name.

    Args:
        ledger: Opened for writing.
        history: Of the same ledger.
        closed: Closed runs that it has.
    """
    shown = Shown(
        ledger=ledger,
        datasets=ServedDatasets([ServedDataset(facts=FACTS, records=None)]),
        telemetry=Telemetry(),
        is_ready=lambda: True,
        history=history,
    )
    numbers = itertools.count(10 * closed + 1000)
    fresh: list[str] = []
    used: dict[str, int] = {}

    def open_one() -> None:
        fresh.append(ledger.open_run(opening(next(numbers)), HOLDER).run_id)

    def charge() -> None:
        run_id = fresh[-1]
        used[run_id] = used.get(run_id, 0) + 1
        ledger.advance_mark(run_id, HOLDER, 1, used[run_id])

    def close_one() -> None:
        run_id = fresh.pop()
        ledger.close_run(run_id, HOLDER, 1, used.get(run_id, 0), "by the analyst")

    def page() -> Page:
        view = overview(shown, _STEWARD, utc_now())
        return Page("dashboard.html", view=view, has_session=False)

    middle = f"{closed // 2:032x}"
    return [
        ("open a run", open_one),
        ("charge", charge),
        ("close a run", close_one),
        ("budget", lambda: ledger.statement(DATASET)),
        ("list, steward", lambda: list_runs(ledger, _STEWARD)),
        ("list, analyst", lambda: list_runs(ledger, _ANALYST)),
        ("page, steward", lambda: page_of_runs(ledger, _STEWARD, _PAGE, middle)),
        ("page, analyst", lambda: page_of_runs(ledger, _ANALYST, _PAGE, None)),
        ("look for idle runs", ledger.open_runs),
        ("metrics", lambda: measure(shown)),
        ("dashboard", page),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--location", default="")
    parser.add_argument("--closed", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--marks", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--filled", default="", help="of a ledger that was built, by itself")
    arguments = parser.parse_args()
    about = {
        "command": "python -m benchmarks.ledger_scale",
        "date": f"{utc_now():%Y-%m-%d}",
        "processor": processor(),
        "database": "PostgreSQL" if arguments.location else "SQLite",
        "marks": arguments.marks,
    }
    if arguments.filled:
        about["closed_runs"] = arguments.closed[0]
        ledger, history = measure_start(arguments.location, Path(arguments.filled), about)
        if arguments.repeats:
            measure_calls(ledger, history, about, arguments.repeats)
            measure_export(ledger, about)
        ledger.close()
        return
    for closed in arguments.closed:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            fill(arguments.location, Path(folder), closed, arguments.marks)
            seconds = round(time.perf_counter() - started, 1)
            print_row(**about, closed_runs=closed, what="build", wall_s=seconds)
            again = [sys.executable, "-m", "benchmarks.ledger_scale", "--filled", folder]
            again += ["--closed", str(closed), "--marks", str(arguments.marks)]
            again += ["--location", arguments.location]
            for repeats in (0, arguments.repeats):  # the first start leaves a checkpoint
                subprocess.run([*again, "--repeats", str(repeats)], check=True)


if __name__ == "__main__":
    main()
