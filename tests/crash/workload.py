"""What a process does until it is killed: open, set up, charge, deliver, hand over, close.

It follows the order of curator/service: charge durably, then deliver. Deliveries are written to a
journal beside the ledger, which a killed process leaves as it was.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from curator.ledger.entries import StatusSet
from curator.ledger.ledger import DatasetStatus, Ledger, RunState
from tests.contract.ledger_values import SETUP, opening, registration
from tests.crash.points import Reaper
from tests.fakes.clock import FakeClock

LARGEST_BLOCK: Final = 5
STEPS: Final = 12
RUNS: Final = (3, 1)
"""Of the life that is killed, in any of them; of the next one, which first ends what was left."""


class OpenLedger(Protocol):
    def __call__(self, location: str, clock: FakeClock) -> Ledger: ...


@dataclass(frozen=True)
class Case:
    """One life of one process."""

    location: str
    journal: str
    kind: str
    point: str
    times: int
    seed: int
    life: int


class Workload:
    def __init__(self, case: Case, ledger: Ledger, reaper: Reaper) -> None:
        self._case = case
        self._ledger = ledger
        self._reaper = reaper
        self._random = random.Random(f"{case.seed} {case.life}")  # noqa: S311 - a script
        self._holder = f"life-{case.life}"
        self._journal = os.open(case.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def run(self) -> None:
        if not self._ledger.datasets():
            self._ledger.register_dataset(registration())
        if self._ledger.dataset("d").status is DatasetStatus.PAUSED:  # killed while it was
            self._turn(DatasetStatus.ACTIVE)
        for left in [run for run in self._ledger.runs() if run.is_open]:
            self._serve(self._ledger.adopt_run(left.run_id, self._holder))
        for number in range(RUNS[self._case.life]):
            name = f"life-{self._case.life}-run-{number}"
            asked = opening(name, STEPS, setup=SETUP)
            self._serve(self._ledger.open_run(asked, self._holder))
            self._turn(DatasetStatus.PAUSED)
            self._turn(DatasetStatus.ACTIVE)
        self._ledger.verify()

    def _turn(self, status: DatasetStatus) -> None:
        self._ledger.decide(StatusSet(dataset="d", status=status, reason="test"))

    def _serve(self, run: RunState) -> None:
        if run.setup_begun and not run.setup_digest:  # its release was lost
            self._ledger.close_run(run.run_id, run.holder, run.epoch, run.used, "lost")
            return
        if not run.setup_begun:
            self._ledger.begin_setup(run.run_id, run.holder, run.epoch)
            self._ledger.store_setup(run.run_id, run.holder, run.epoch, b"released")
            self._say(run.run_id, 0)
        mark, blocks = run.used, 0
        until = self._random.randint(max(mark, LARGEST_BLOCK + 1), STEPS)
        for step in range(mark + 1, until + 1):
            if step > mark:
                mark = min(mark + self._random.randint(1, LARGEST_BLOCK), STEPS)
                self._ledger.advance_mark(run.run_id, run.holder, run.epoch, mark)
                blocks += 1
            self._reaper.deliver(self._say, run.run_id, step)
            if blocks == 2:  # what is left of the block comes back
                self._ledger.relinquish_run(run.run_id, run.holder, run.epoch, step)
                run = self._ledger.adopt_run(run.run_id, self._holder)
                mark, blocks = step, 3
        self._ledger.close_run(run.run_id, run.holder, run.epoch, until, "done")

    def _say(self, run_id: str, step: int) -> None:
        os.write(self._journal, f"{run_id} {step}\n".encode())


def delivered(journal: Path) -> dict[str, list[int]]:
    """Return the steps delivered of each run; 0 is the setup."""
    found: dict[str, list[int]] = {}
    for line in journal.read_text().splitlines() if journal.exists() else ():
        name, step = line.split()
        found.setdefault(name, []).append(int(step))
    return found
