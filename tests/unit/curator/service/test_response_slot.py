"""Answers leave at the end of a slot, or of the next one."""

from __future__ import annotations

import threading

import pytest

from curator.service import response_slot
from curator.service.response_slot import ResponseSlot


class Timers:
    """Stands in for threading.Timer and remembers delays."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def __call__(self, delay: float, action: object) -> threading.Thread:
        self.delays.append(delay)
        return threading.Thread(target=action)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("passed", "delay"), [(0.0, 0.05), (0.01, 0.04), (0.05, 0.0), (0.051, 0.049), (0.24, 0.01)]
)
def test_the_answer_waits_for_the_end_of_a_slot(
    monkeypatch: pytest.MonkeyPatch, passed: float, delay: float
) -> None:
    timers = Timers()
    monkeypatch.setattr(response_slot.threading, "Timer", timers)  # type: ignore[attr-defined]
    ResponseSlot(seconds=0.05).deliver(lambda: None, 100.0, lambda: 100.0 + passed)
    assert timers.delays == [pytest.approx(delay, abs=1e-9)]


def test_without_a_slot_the_answer_leaves_at_once() -> None:
    delivered: list[int] = []
    ResponseSlot(seconds=0.0).deliver(lambda: delivered.append(1), 0.0, lambda: 9.0)
    assert delivered == [1]


def test_a_slot_delivers() -> None:
    delivered = threading.Event()
    ResponseSlot(seconds=0.01).deliver(delivered.set, 0.0, lambda: 0.0)
    assert delivered.wait(10)
