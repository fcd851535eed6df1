"""Sixteen at once for the last steps of a data set: exactly what fits is granted."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from curator.accounting.rule import BudgetRule
from curator.errors import BudgetExhausted
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import BUDGET, most_steps, opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.crash.harness import ROOT
from tests.crash.naive import ChecksThenActs, Opens
from tests.fakes.clock import FakeClock

RACERS = 16
FIT = 5


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    ledger = SqlLedger.open_writer(tmp_path / "ledger.sqlite", FakeClock())
    ledger.register_dataset(registration())
    ledger.open_run(opening("before", most_steps() - FIT), "h")
    yield ledger
    ledger.close()


def granted(ledger: Opens) -> int:
    """How many of the racers, each asking for one step, are let in."""
    together = threading.Barrier(RACERS)

    def race(number: int) -> int:
        together.wait()
        try:
            ledger.open_run(opening(f"racer-{number}", 1), f"holder-{number}")
        except BudgetExhausted:
            return 0
        return 1

    with ThreadPoolExecutor(RACERS) as pool:
        return sum(pool.map(race, range(RACERS)))


def test_exactly_the_cap_is_granted(ledger: SqlLedger) -> None:
    assert granted(ledger) == FIT
    assert ledger.statement("d").reserved_epsilon <= BUDGET.epsilon
    ledger.verify()


def test_a_ledger_that_checks_and_then_acts_is_found_out(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BudgetRule, "admits", lambda *_: True)  # it asked before, it does not again
    assert granted(ChecksThenActs(ledger, RACERS)) > FIT
    assert ledger.statement("d").reserved_epsilon > BUDGET.epsilon


def test_sixteen_processes_are_granted_exactly_the_cap() -> None:
    url = postgres_or_skip().fresh()
    ledger = SqlLedger.open_database(url, FakeClock())
    ledger.register_dataset(registration())
    ledger.open_run(opening("before", most_steps() - FIT), "h")
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.racer", url, str(RACERS)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(FIT), str(RACERS - FIT)], done.stderr
    assert ledger.statement("d").reserved_epsilon <= BUDGET.epsilon
    ledger.verify()
    ledger.close()
