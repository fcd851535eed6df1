"""Calls are counted by caller, and none waits for the other side for ever."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, cast

import pytest

from curator.errors import TooManyCalls, Unavailable
from curator.rpc.call_limits import CALLS_PER_CALLER, CallDeadlines, OpenCalls, Room
from curator.rpc.messages import Messages
from curator.service.caller import Caller, Role


def caller(name: str) -> Caller:
    return Caller(name, Role.ANALYST)


def test_a_caller_has_so_many_calls_and_closing_one_makes_room() -> None:
    calls = OpenCalls(1000)
    with ExitStack() as held:
        for _ in range(CALLS_PER_CALLER - 1):
            held.enter_context(calls.counted(caller("alice")))
        with calls.counted(caller("alice")), pytest.raises(TooManyCalls):
            held.enter_context(calls.counted(caller("alice")))
        held.enter_context(calls.counted(caller("alice")))
        held.enter_context(calls.counted(caller("bob")))


def take_all(calls: OpenCalls, name: str, held: ExitStack) -> int:
    """Open calls until one is refused; return how many there were."""
    for number in range(1000):
        try:
            held.enter_context(calls.counted(caller(name)))
        except TooManyCalls:
            return number
    raise AssertionError


def test_greedy_callers_leave_room_for_one_more() -> None:
    calls = OpenCalls(128)
    with ExitStack() as held:
        taken = [take_all(calls, f"greedy-{number}", held) for number in range(6)]
        assert taken == [24, 24, 24, 24, 16, 8]  # never more than what is left for others
        assert calls.is_crowded()
        assert take_all(calls, "modest", held) == 4
    assert not calls.is_crowded()


class Call:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_call_that_waits_too_long_is_ended() -> None:
    clock = Seconds()
    patience = CallDeadlines(lambda: False, clock)
    slow, quick = Call(), Call()
    with patience.waiting(cast("Any", slow), 10.0), patience.waiting(cast("Any", quick), 30.0):
        clock.now += 9
        patience.sweep()
        assert not slow.cancelled
        clock.now += 1
        patience.sweep()
        assert (slow.cancelled, quick.cancelled) == (True, False)


def test_a_call_that_no_longer_waits_is_left_alone() -> None:
    clock = Seconds()
    patience = CallDeadlines(lambda: False, clock)
    call = Call()
    with patience.waiting(cast("Any", call), 10.0):
        clock.now += 9
    clock.now += 100
    patience.sweep()
    patience.stop()
    assert not call.cancelled


def test_stopping_ends_what_waits() -> None:
    patience, call = CallDeadlines(lambda: False, Seconds()), Call()
    with patience.waiting(cast("Any", call), 1e9):
        patience.stop()
        assert call.cancelled


def test_a_stream_that_never_waits_takes_no_message_when_stopping() -> None:
    """Its client has the next one sent already, so there is nothing to cancel."""

    class Anyone:
        def caller(self, _: Any) -> Caller:
            return alice

    alice = caller("alice")
    patience = CallDeadlines(lambda: False, Seconds())
    messages = Messages(
        authenticator=cast("Any", Anyone()),
        patience=patience,
        room=Room(100),
        credentials=cast("Any", None),
        caller=alice,
    )
    sent = iter([b"1", b"2", b"3"])
    received = messages.received(sent, cast("Any", Call()), lambda data: data, lambda: 10.0)
    assert next(received) == b"1"
    patience.stop()
    with pytest.raises(Unavailable):
        next(received)
    assert list(sent) == [b"2", b"3"]


def test_when_crowded_a_call_waits_a_few_seconds_only() -> None:
    clock, call, crowded = Seconds(), Call(), False
    patience = CallDeadlines(lambda: crowded, clock)
    with patience.waiting(cast("Any", call), 900.0):
        clock.now += 6
        patience.sweep()
        assert not call.cancelled
        crowded = True
        patience.sweep()
        assert call.cancelled
