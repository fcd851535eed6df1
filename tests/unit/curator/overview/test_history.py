"""Spent and reserved over time follow the entries, and stay a few hundred points."""

from __future__ import annotations

from datetime import timedelta

import pytest

from curator.ledger.chain import Entry
from curator.overview.history import KEPT_POINTS, History
from tests.browser.scenes import HOLDER, Scene


@pytest.fixture
def scene() -> Scene:
    return Scene("digits", "scans")


def test_points_are_the_ledger_s_numbers_at_the_entries(scene: Scene) -> None:
    history = History()
    assert history.read(scene.ledger)
    opened = scene.open("digits", "alice", 1000)
    for used in (100, 200, 300):
        scene.clock.advance(60)
        scene.ledger.advance_mark(opened, HOLDER, 1, used)
        assert history.read(scene.ledger)
        statement, last = scene.ledger.statement("digits"), history.points("digits")[-1]
        assert (last.spent, last.reserved) == (statement.spent_epsilon, statement.reserved_epsilon)
        assert last.at == scene.clock.now
    assert len(history.points("digits")) == 5
    assert [point.spent for point in history.points("scans")] == [0.0]
    assert history.points("unknown") == ()


def test_reading_at_once_ends_where_reading_piece_by_piece_does(scene: Scene) -> None:
    pieces = History()
    opened = scene.open("digits", "alice", 5000)
    for used in range(1, 300):
        scene.clock.advance(30)
        scene.ledger.advance_mark(opened, HOLDER, 1, used)
        pieces.read(scene.ledger)
    whole = History()
    whole.read(scene.ledger)
    assert whole.points("digits")[-1] == pieces.points("digits")[-1]


def test_a_long_history_is_coarser_and_not_longer(scene: Scene) -> None:
    history = History()
    opened = scene.open("digits", "alice", 100_000)
    for used in range(1, 6 * KEPT_POINTS):
        scene.clock.advance(5)
        scene.ledger.advance_mark(opened, HOLDER, 1, used)
    history.read(scene.ledger)
    points = history.points("digits")
    assert KEPT_POINTS // 2 <= len(points) <= 2 * KEPT_POINTS + 1
    assert sorted(points, key=lambda point: point.at) == list(points)
    assert points[-1].spent == scene.ledger.statement("digits").spent_epsilon


def test_the_rate_is_of_the_last_minutes_and_ends_with_the_run(scene: Scene) -> None:
    history = History()
    opened = scene.open("digits", "alice", 100_000)
    for used in (100, 200, 300):
        scene.clock.advance(10)
        scene.ledger.advance_mark(opened, HOLDER, 1, used)
    history.read(scene.ledger)
    assert history.steps_per_second(opened, scene.clock.now) == pytest.approx(10)
    assert history.steps_per_second(opened, scene.clock.now + timedelta(hours=1)) is None
    assert history.steps_per_second("other", scene.clock.now) is None
    scene.close(opened)
    history.read(scene.ledger)
    assert history.steps_per_second(opened, scene.clock.now) is None


def test_what_was_relinquished_counts_in_no_rate(scene: Scene) -> None:
    history = History()
    opened = scene.open("digits", "alice", 100_000)
    scene.ledger.advance_mark(opened, HOLDER, 1, 100)
    scene.clock.advance(10)
    scene.ledger.relinquish_run(opened, HOLDER, 1, 60)
    history.read(scene.ledger)
    assert history.steps_per_second(opened, scene.clock.now) == pytest.approx(6)
    later = scene.clock.now + timedelta(seconds=595)  # the opening is out of sight
    assert history.steps_per_second(opened, later) is None


def test_entries_of_a_newer_version_stop_it_and_it_says_so(scene: Scene) -> None:
    history = History()
    history.read(scene.ledger)
    before = history.points("digits")
    scene.ledger._entries.append(Entry.following(scene.ledger.head(), "2026-01-02", "new", "{}"))
    assert not history.read(scene.ledger)
    assert not history.read(scene.ledger)
    assert history.points("digits") == before


def test_a_clock_that_is_set_back_loses_no_point_and_is_told(scene: Scene) -> None:
    whole = History()
    opened = scene.open("digits", "alice", 100_000)
    assert whole.read(scene.ledger)
    assert whole.has_ordered_times
    scene.clock.advance(-86_400)
    for used in range(100, 600, 100):
        scene.clock.advance(10)
        scene.ledger.advance_mark(opened, HOLDER, 1, used)
    assert whole.read(scene.ledger)
    spent = [point.spent for point in whole.points("digits")]
    assert spent == sorted(spent)
    assert len(spent) == 7  # registered, opened, and one for each mark
    assert [whole.has_ordered_times] == [False]
    assert whole.steps_per_second(opened, scene.clock.now) == pytest.approx(10)
