"""A clock that jumps is told once, with both times, and changes nothing else."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from curator.ledger.chain import EntryTimes
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import opening, registration
from tests.fakes.clock import FakeClock


class Clocks:
    """A wall clock and one that nobody sets; `pass_by` moves both."""

    def __init__(self) -> None:
        self.wall = FakeClock()
        self.ticks = 0.0
        self.times = EntryTimes(self.wall, lambda: self.ticks)

    def pass_by(self, seconds: float) -> None:
        self.wall.advance(seconds)
        self.ticks += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.mark.parametrize(
    ("jump", "word"), [(-60, "back"), (-20 * 365 * 86_400, "back"), (3600, "forwards")]
)
def test_a_jump_is_told_once_with_both_times(
    clocks: Clocks, caplog: pytest.LogCaptureFixture, jump: float, word: str
) -> None:
    before = clocks.times.now()
    clocks.wall.advance(jump)
    for _ in range(3):
        assert clocks.times.now() == clocks.wall.now
        clocks.pass_by(5)
    (record,) = caplog.records
    assert word in record.getMessage()
    assert str(before) in record.getMessage()
    assert str(before + timedelta(seconds=jump)) in record.getMessage()


def test_time_that_passes_is_no_jump(clocks: Clocks, caplog: pytest.LogCaptureFixture) -> None:
    clocks.times.now()
    for seconds in (0, 1, 3600, 40 * 86_400):
        clocks.pass_by(seconds)
        clocks.times.now()
    clocks.wall.advance(-0.5)
    clocks.times.now()
    assert not caplog.records


def test_the_last_entry_of_a_ledger_that_is_opened_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()

    def reopened(move: float) -> list[str]:
        clock.advance(move)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            ledger = SqlLedger.open_writer(tmp_path / "ledger.sqlite", clock)
        if not ledger.datasets():
            ledger.register_dataset(registration())
        ledger.open_run(opening(f"r{ledger.head()[0]}", 1), "h")
        ledger.verify()
        ledger.close()
        return [record.getMessage() for record in caplog.records]

    assert reopened(0) == []
    assert reopened(90 * 86_400) == []
    (back,) = reopened(-30 * 86_400)
    assert "back" in back
    (leap,) = reopened(30 * 365 * 86_400)
    assert "forwards" in leap
