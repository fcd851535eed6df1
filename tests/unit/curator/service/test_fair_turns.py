"""One caller's work never waits for another caller's second piece."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from curator.service.fair_turns import FairTurns, working_for

SECONDS = 20.0


class Piece:
    """Work of a caller in a thread of its own, inside until it is told to end."""

    def __init__(self, turns: FairTurns, caller: str, order: list[str]) -> None:
        self.inside = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(turns, caller, order))
        self._thread.start()

    def _work(self, turns: FairTurns, caller: str, order: list[str]) -> None:
        with working_for(caller), turns.turn():
            order.append(caller)
            self.inside.set()
            self._end.wait(SECONDS)

    def end(self) -> None:
        self._end.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(20_000):
        if true():
            return
        pause.wait(0.001)
    raise AssertionError("it never came about")


@contextmanager
def waiting(turns: FairTurns, callers: str, order: list[str]) -> Iterator[list[Piece]]:
    """Let callers wait in this order."""
    pieces = []
    for number, caller in enumerate(callers, turns.num_waiting + 1):
        pieces.append(Piece(turns, caller, order))
        until(lambda: turns.num_waiting == number)  # noqa: B023 - called at once
    yield pieces
    for piece in pieces:
        piece.end()


def test_a_newcomer_waits_for_nobody_s_queue() -> None:
    turns, order = FairTurns(2, extra=2), list[str]()
    greedy = [Piece(turns, "m", order) for _ in range(2)]
    for piece in greedy:
        assert piece.inside.wait(SECONDS)
    with waiting(turns, "mmmm", order):
        honest = Piece(turns, "a", order)
        assert honest.inside.wait(SECONDS)  # beside the two, though four wait
        assert turns.num_waiting == 4
        honest.end()
        assert turns.num_waiting == 4  # its place was its own
        for piece in greedy:
            piece.end()


def test_those_who_wait_are_served_caller_by_caller() -> None:
    turns, order = FairTurns(1), list[str]()
    first = Piece(turns, "m", order)
    assert first.inside.wait(SECONDS)
    with waiting(turns, "mmmmab", order) as pieces:
        for piece in pieces:
            piece._end.set()
        first.end()
        until(lambda: len(order) == 7)
    assert order == ["m", "m", "a", "b", "m", "m", "m"]


def test_callers_together_never_take_more_than_all_places() -> None:
    turns, order = FairTurns(1, extra=2), list[str]()
    inside = [Piece(turns, caller, order) for caller in "abc"]
    for piece in inside:
        assert piece.inside.wait(SECONDS)
    with waiting(turns, "d", order) as (last,):
        assert not last.inside.is_set()
        inside[0].end()
        assert last.inside.wait(SECONDS)
        for piece in inside[1:]:
            piece.end()


def test_one_place_is_left_while_others_are_at_work() -> None:
    now, order = [0.0], list[str]()
    turns = FairTurns(3, extra=1, clock=lambda: now[0])
    Piece(turns, "a", order).end()
    greedy = [Piece(turns, "m", order) for _ in range(2)]
    for piece in greedy:
        assert piece.inside.wait(SECONDS)
    with waiting(turns, "m", order) as (third,):
        greedy[0].end()
        assert third.inside.wait(SECONDS)
        now[0] = 2.0  # nobody else since: all places are its own
        more = [Piece(turns, "m", order)]
        assert more[0].inside.wait(SECONDS)
        for piece in (greedy[1], *more):
            piece.end()


def test_who_comes_again_and_again_rests_in_between() -> None:
    now, rests = [0.0], list[float]()
    turns = FairTurns(1, longest_rest=2.0, clock=lambda: now[0], sleep=rests.append)
    for worked, away in ((0.5, 0.0), (0.5, 0.2), (9.0, 0.0), (0.1, 5.0), (0.1, 0.0)):
        with working_for("m"), turns.turn():
            now[0] += worked
        now[0] += away
        with working_for("a"), turns.turn():  # another one owes nothing
            pass
    assert rests == pytest.approx([1.0, 0.8, 2.0])


def test_a_closed_one_serves_those_who_wait_and_nobody_else() -> None:
    turns, order = FairTurns(1), list[str]()
    first = Piece(turns, "a", order)
    assert first.inside.wait(SECONDS)
    with waiting(turns, "a", order) as (second,):
        turns.close(wait=False)
        with pytest.raises(RuntimeError), turns.turn():
            pass
        first.end()
        assert second.inside.wait(SECONDS)
        second._end.set()
        turns.close(wait=True)
    assert order == ["a", "a"]
