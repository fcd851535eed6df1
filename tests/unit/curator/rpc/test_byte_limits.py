"""Bytes on their way are bounded for each caller and for all together."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from curator.errors import TooManyBytes
from curator.rpc.call_limits import Room
from curator.service.caller import Caller, Role


def caller(name: str) -> Caller:
    return Caller(name, Role.ANALYST)


def test_one_caller_never_gets_more_than_what_is_left_for_others() -> None:
    room = Room(100)
    with room.held(caller("mallory"), 30), room.held(caller("mallory"), 20):
        with pytest.raises(TooManyBytes), room.held(caller("mallory"), 1):
            pass
        with room.held(caller("alice"), 25):  # half of what is left
            pass


def test_all_together_never_hold_more_than_there_is() -> None:
    room, total = Room(1000), 0
    with ExitStack() as held:
        for number in range(50):
            for size in (64, 16, 4, 1):
                try:
                    held.enter_context(room.held(caller(f"caller {number}"), size))
                except TooManyBytes:
                    continue
                total += size
        assert 900 < total <= 1000
    with room.held(caller("alice"), 500):  # all of it came back
        pass


def test_what_failed_inside_comes_back_too() -> None:
    room = Room(10)
    for _ in range(3):
        with pytest.raises(KeyError), room.held(caller("alice"), 5):
            raise KeyError
