"""An older copy of a ledger is noticed, and accepting it can only add spend."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from curator.accounting.cost import event_cost
from curator.errors import BudgetExhausted, LedgerUnavailable
from curator.ledger.anchor import HeadAnchor
from curator.ledger.datasets_and_runs import DatasetStatus
from curator.ledger.entries import CapLowered, StatusSet
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.problems import LedgerConflict, LedgerRestored
from curator.ledger.restored import accept_restored
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import BUDGET, STEP, opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock

CLOCK = FakeClock()


class Place:
    """A ledger, its anchor, and a copy that can be put back."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.sqlite"
        self.anchor = HeadAnchor(folder / "head.json")
        self.copy = folder / "copy"

    def open(self) -> SqlLedger:
        return SqlLedger.open_writer(self.path, CLOCK, self.anchor)

    def open_without_anchor(self) -> SqlLedger:
        return SqlLedger.open_writer(self.path, CLOCK)

    def back_up(self) -> None:
        shutil.copy(self.path, self.copy)

    def restore(self) -> None:
        for left in self.path.parent.glob("ledger.sqlite-*"):
            left.unlink()
        shutil.copy(self.copy, self.path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """What was backed up: one run of 40 steps, 10 of them used."""
    place = Place(tmp_path)
    ledger = place.open()
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 40), "h")
    ledger.advance_mark("r", "h", 1, 10)
    ledger.close()
    place.back_up()
    return place


def test_the_same_ledger_is_opened_again(place: Place) -> None:
    for _ in range(2):
        place.open().close()


def test_an_older_copy_is_refused_and_left_alone(place: Place) -> None:
    ledger = place.open()
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close()
    place.restore()
    before = place.path.read_bytes()
    for _ in range(2):
        with pytest.raises(LedgerRestored, match="accept-restored"):
            place.open()
    assert place.path.read_bytes() == before


def test_an_older_copy_that_went_on_otherwise_is_refused(place: Place) -> None:
    ledger = place.open()
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close()
    place.restore()
    other = place.open_without_anchor()
    for used in (11, 12, 13):
        other.advance_mark("r", "h", 1, used)
    other.close()
    with pytest.raises(LedgerRestored):
        place.open()


def test_an_anchor_that_is_behind_after_a_crash_is_no_alarm(place: Place) -> None:
    known = place.anchor._path.read_bytes()
    ledger = place.open()
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close()
    place.anchor._path.write_bytes(known)
    place.open().close()
    assert place.anchor.read().head[0] == 4


@pytest.mark.parametrize(("begun", "later"), [(4, 4), (4, 30), (10, 40)])
def test_accepting_covers_a_run_that_was_relinquished_after_the_copy(
    place: Place, begun: int, later: int
) -> None:
    ledger = place.open()
    ledger.relinquish_run("r", "h", 1, begun)
    ledger.adopt_run("r", "g")
    ledger.advance_mark("r", "g", 2, 40)
    ledger.close_run("r", "g", 2, later, "done")
    ledger.close()
    place.restore()
    ledger = place.open_without_anchor()
    accept_restored(ledger, place.anchor, "test")
    assert ledger.account("d").spent == event_cost(STEP) * max(10, later)  # the copy's mark is 10
    ledger.close()


def test_accepting_counts_all_that_was_reserved(place: Place) -> None:
    ledger = place.open()
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close_run("r", "h", 1, 20, "done")
    ledger.open_run(opening("s", 30), "h")
    ledger.close()
    place.restore()
    ledger = place.open_without_anchor()
    (line,) = accept_restored(ledger, place.anchor, "the disk broke")
    assert line.startswith("d: epsilon spent")
    assert ledger.account("d").spent == event_cost(STEP) * 50
    assert ledger.account("d").reserved == ledger.account("d").spent
    assert not ledger.run("r").is_open
    ledger.verify()
    (totals,) = verify_export(export_jsonl(ledger)).totals
    assert totals.spent_epsilon > totals.second_spent_epsilon > 0
    ledger.close()
    place.open().close()


def test_accepting_again_adds_nothing(place: Place) -> None:
    ledger = place.open()
    ledger.advance_mark("r", "h", 1, 20)
    ledger.close()
    place.restore()
    known = place.anchor._path.read_bytes()
    ledger = place.open_without_anchor()
    accept_restored(ledger, place.anchor, "the disk broke")
    spent = ledger.account("d").spent
    place.anchor._path.write_bytes(known)  # as if killed just before it knew
    accept_restored(ledger, place.anchor, "the disk broke")
    assert ledger.account("d").spent == spent == event_cost(STEP) * 40
    with pytest.raises(LedgerConflict, match="nothing to accept"):
        accept_restored(ledger, place.anchor, "again")
    ledger.close()


def test_what_the_copy_never_knew_comes_back_with_the_order_that_it_favoured(place: Place) -> None:
    ledger = place.open()
    rule = ledger.register_dataset(registration("e"), 2.5).rule
    ledger.close()
    place.restore()
    ledger = place.open_without_anchor()
    accept_restored(ledger, place.anchor, "the disk broke")
    assert ledger.dataset("e").rule == rule
    assert ledger.dataset("d").rule.chosen is None
    ledger.close()


def test_what_the_copy_never_knew_comes_back(place: Place) -> None:
    ledger = place.open()
    ledger.register_dataset(registration("e"))
    ledger.open_run(opening("s", 30, dataset="e"), "h")
    ledger.decide(CapLowered(dataset="d", epsilon=2.5, reason="test"))
    ledger.decide(StatusSet(dataset="d", status=DatasetStatus.RETIRED, reason="test"))
    ledger.close()
    place.restore()
    ledger = place.open_without_anchor()
    accept_restored(ledger, place.anchor, "the disk broke")
    assert ledger.dataset("e").registration == registration("e")
    assert ledger.account("e").spent == event_cost(STEP) * 30
    state = ledger.dataset("d")
    assert (state.cap, state.status) == (2.5, DatasetStatus.RETIRED)
    ledger.close()


def test_an_accepted_copy_may_be_exhausted(place: Place) -> None:
    ledger = place.open()
    most = ledger.account("d").rule.affordable_steps(
        ledger.account("d").reserved, event_cost(STEP) * 0, event_cost(STEP), 10**7
    )
    ledger.open_run(opening("s", most), "h")
    ledger.close()
    place.restore()
    ledger = place.open_without_anchor()
    accept_restored(ledger, place.anchor, "the disk broke")
    assert ledger.statement("d").spent_epsilon <= BUDGET.epsilon
    with pytest.raises(BudgetExhausted):
        ledger.open_run(opening("t", 1), "h")
    ledger.close()


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"seq": "x"})])
def test_an_anchor_that_cannot_be_read_fails_closed(place: Place, text: str) -> None:
    place.anchor._path.write_text(text)
    with pytest.raises(LedgerUnavailable):
        place.open()


def test_an_anchor_that_cannot_be_written_stops_every_charge(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = place.open()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("curator.ledger.anchor.os.fsync", full)
        with pytest.raises(LedgerUnavailable):
            ledger.advance_mark("r", "h", 1, 11)
    assert ledger.advance_mark("r", "h", 1, 12).used == 12
    ledger.close()


def test_a_database_that_was_put_back_is_noticed(tmp_path: Path) -> None:
    url = postgres_or_skip().fresh()
    anchor = HeadAnchor(tmp_path / "head.json")
    ledger = SqlLedger.open_database(url, CLOCK, anchor)
    ledger.register_dataset(registration())
    ledger.close()
    SqlLedger.open_database(url, CLOCK, anchor).close()
    with pytest.raises(LedgerRestored):
        SqlLedger.open_database(postgres_or_skip().fresh(), CLOCK, anchor)


def test_what_another_replica_reserved_is_known_here_too(tmp_path: Path) -> None:
    """One replica's anchor must bound the loss alone: the other's may be lost with its disk."""
    url = postgres_or_skip().fresh()
    here = SqlLedger.open_database(url, CLOCK, HeadAnchor(tmp_path / "here.json"))
    there = SqlLedger.open_database(url, CLOCK, HeadAnchor(tmp_path / "there.json"))
    here.register_dataset(registration())
    here.open_run(opening("mine", 10), "h")
    there.open_run(opening("theirs", 30), "g")
    here.advance_mark("mine", "h", 1, 1)  # its head is now behind the other's opening
    note = HeadAnchor(tmp_path / "here.json").read()
    assert note.head == here.head()
    assert note.datasets["d"]["reserved"] == (event_cost(STEP) * 40).to_json()
    here.close()
    there.close()


def test_what_was_durable_and_not_noted_is_not_missed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = place.open()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("curator.ledger.anchor.os.fsync", full)
        with pytest.raises(LedgerUnavailable):
            ledger.open_run(opening("s", 30), "h")
    ledger.advance_mark("r", "h", 1, 12)
    assert place.anchor.read().datasets["d"]["reserved"] == (event_cost(STEP) * 70).to_json()
    ledger.close()


def test_changes_of_two_threads_are_noted_in_either_order(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are durable before either is noted, and the later one is noted first."""
    ledger = place.open()
    advance = HeadAnchor.advance

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(HeadAnchor, "advance", advance)
        ledger.advance_mark("r", "h", 1, 12)
        return advance(*arguments)

    monkeypatch.setattr(HeadAnchor, "advance", overtaken)
    ledger.open_run(opening("s", 30), "h")
    note = place.anchor.read()
    assert note.head == ledger.head()
    assert note.datasets["d"]["reserved"] == (event_cost(STEP) * 70).to_json()
    ledger.close()
