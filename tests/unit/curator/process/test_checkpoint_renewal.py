"""A serving curator renews the checkpoint, and notices a ledger that was changed under it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from curator.ledger import checkpoint
from curator.ledger.checkpoint import Checkpoint
from curator.ledger.datasets_and_runs import NOTHING
from curator.ledger.entries import SpendAdded
from curator.ledger.problems import ChainBroken
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.history import History
from curator.process.checkpoint_renewal import Renewal
from tests.contract.ledger_values import registration
from tests.fakes.clock import FakeClock


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlLedger]:
    monkeypatch.setattr(checkpoint, "WORTH", 5)
    ledger = SqlLedger.open_writer(tmp_path / "ledger.sqlite", FakeClock())
    ledger.register_dataset(registration())
    yield ledger
    ledger.close()


def grow(ledger: SqlLedger, entries: int) -> None:
    for _ in range(entries):
        ledger.decide(SpendAdded(dataset="d", cost=NOTHING, reason="test"))


def looked(renewal: Renewal) -> bool:
    """Look, wait until that is over, and say whether anything was begun."""
    before = renewal._thread
    renewal.look()
    if renewal._thread is None or renewal._thread is before:
        return False
    renewal._thread.join(60)
    return True


def test_it_is_renewed_when_enough_is_new(ledger: SqlLedger, tmp_path: Path) -> None:
    renewal = Renewal(ledger, tmp_path / "checkpoint", Checkpoint(tmp_path / "checkpoint"))
    grow(ledger, 3)
    assert not looked(renewal)
    grow(ledger, 1)
    assert looked(renewal)
    assert not looked(renewal)
    renewal.check()
    known = Checkpoint(tmp_path / "checkpoint", History())
    ledger.verify_from(known)
    assert known.seq == 5


def test_a_large_ledger_is_verified_when_a_tenth_is_new() -> None:
    known = Checkpoint(None)
    known.seq = 1_000_000
    assert not known.is_behind(1_100_000)
    assert known.is_behind(1_111_112)


def test_what_was_changed_by_other_means_stops_the_curator(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    renewal = Renewal(ledger, tmp_path / "checkpoint", Checkpoint(tmp_path / "checkpoint"))
    grow(ledger, 4)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.execute("UPDATE datasets SET epsilon = 20")
        connection.commit()
    assert not renewal.is_broken()
    assert looked(renewal)
    assert renewal.is_broken()
    with pytest.raises(ChainBroken, match="data set 'd'"):
        renewal.check()


def test_a_ledger_that_cannot_be_read_is_looked_at_again(ledger: SqlLedger, tmp_path: Path) -> None:
    renewal = Renewal(ledger, tmp_path / "checkpoint", Checkpoint(tmp_path / "checkpoint"))
    grow(ledger, 4)
    (tmp_path / "ledger.sqlite").rename(tmp_path / "gone")
    ledger._store._store._reader.dispose()
    assert not looked(renewal)
    (tmp_path / "gone").rename(tmp_path / "ledger.sqlite")
    assert looked(renewal)
    renewal.check()
