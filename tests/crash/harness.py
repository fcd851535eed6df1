"""Kill, look, restart, look again: what must hold after kill -9 at one point."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

from curator.accounting.cost import Cost, event_cost
from curator.ledger.ledger import Ledger
from tests.contract.ledger_values import SETUP, STEP
from tests.crash.locations import reading
from tests.crash.points import ANYWHERE, ONCE
from tests.crash.workload import LARGEST_BLOCK, Case, delivered

ROOT = Path(__file__).resolve().parents[2]


class Broken(AssertionError):
    """The ledger under test did not keep its promise; the text says which."""


@dataclass(frozen=True)
class Outcome:
    """What one kill cost."""

    killed: bool
    over_count: int


class Zygote:
    """The process that forks the children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heavy_imports: list[str] = json.loads(self._line(self._process.stdout))

    def live(self, case: Case) -> int:
        """Return how a child ended that lived as `case` says."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        return int(self._line(self._process.stdout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    @staticmethod
    def _line(stream: IO[str] | None) -> str:
        assert stream is not None
        return stream.readline()


def kill_once(
    zygote: Zygote, location: str, journal: Path, point: str, seed: int, kind: str = "sql"
) -> Outcome:
    """Kill one process at one point, restart it, and check what must hold after each.

    Args:
        zygote: What forks the processes.
        location: A SQLite file or a PostgreSQL schema; not there yet, or empty.
        journal: A file that is not there yet, for what was delivered.
        point: Where to kill.
        seed: Which script, and at which time of coming to the point.
        kind: "sql", or "naive" for a ledger that must be found out.

    Raises:
        Broken: If anything was charged too little, or too much, or needed a hand.
    """
    times = 1 if point.startswith(ONCE) else 1 + seed % 3
    case = Case(location, str(journal), kind, point, times, seed, life=0)
    killed = zygote.live(case)
    allowed = {-signal.SIGKILL, 0} if point == ANYWHERE else {-signal.SIGKILL}
    if killed not in allowed:
        raise Broken(f"{point}: the process ended with {killed} and was to be killed")
    if journal.exists():  # the child came as far as its workload
        _look(location, journal)
    restarted = zygote.live(Case(location, str(journal), kind, "", 0, seed, life=1))
    if restarted:
        raise Broken(f"{point}: the restart ended with {restarted}")
    over = _look(location, journal, is_ended=True)
    return Outcome(killed=killed == -signal.SIGKILL, over_count=over)


def _look(location: str, journal: Path, *, is_ended: bool = False) -> int:
    """Check the chain and that nothing is under-counted; return by how many steps it is over.

    Raises:
        Broken: If a run or its data set was charged less than was delivered, or a run is open and
            all of them have ended.
    """
    told = delivered(journal)
    with reading(location) as ledger:
        ledger.verify()
        runs = {run.run_id: run for run in ledger.runs()}
        if is_ended and any(run.is_open for run in runs.values()):
            raise Broken("a run is left open after the restart")
        if not set(told) <= set(runs):
            raise Broken("a run that delivered is not in the ledger")
        over = 0
        for name, run in runs.items():
            said = told.get(name, [])
            steps = [step for step in said if step]
            if len(set(said)) != len(said):
                raise Broken(f"{name} delivered a step twice")
            if max(steps, default=0) > run.used or (0 in said and not run.setup_begun):
                raise Broken(f"{name} delivered {said} and was charged {run.used} steps")
            over += run.used - len(steps)
        _check_account(ledger, told)
    if over > LARGEST_BLOCK:
        raise Broken(f"{over} steps were charged and not delivered")
    return over


def _check_account(ledger: Ledger, told: dict[str, list[int]]) -> None:
    """Check the data set's own total.

    Raises:
        Broken: If it is below what its runs delivered.
    """
    if not ledger.datasets():
        return
    setups = sum(0 in steps for steps in told.values())
    steps = sum(len(steps) - (0 in steps) for steps in told.values())
    given: Cost = event_cost(SETUP) * setups + event_cost(STEP) * steps
    spent = ledger.account("d").spent
    for charged, least in zip(spent.units, given.units, strict=True):
        if charged is not None and (least is None or charged < least):
            raise Broken("the data set was charged less than its runs delivered")
