"""The same request is sent again, with backoff and jitter, and only where that helps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analyst.client.retry import persist
from analyst.errors import (
    AnalystError,
    BudgetExhausted,
    BudgetNumbers,
    CuratorFailed,
    CuratorSilent,
    CuratorUnavailable,
    CuratorUnreachable,
    DatasetPaused,
    ProtocolError,
    TooFast,
)

NUMBERS = BudgetNumbers(budget=1, spent=1, reserved=1, asked=2, remaining=0, delta=1e-5)


class World:
    """Time, and an attempt that fails as it is told."""

    def __init__(self, *problems: AnalystError) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.problems = list(problems)
        self.num_attempts = 0

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def attempt(self) -> str:
        self.num_attempts += 1
        if self.problems:
            raise self.problems.pop(0)
        return "answer"

    def run(self, patience: float = 60.0, attempt: Callable[[], str] | None = None) -> str:
        return persist(
            attempt or self.attempt,
            target="host:1",
            patience=patience,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


def lost() -> CuratorUnreachable:
    return CuratorUnreachable("lost")


def too_fast(seconds: float) -> TooFast:
    return TooFast("rule", reason="TOO_FAST", retry_seconds=seconds)


def test_pauses_grow_with_jitter_and_have_a_longest() -> None:
    world = World(*(lost() for _ in range(9)))
    assert world.run() == "answer"
    bounds = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert all(b / 2 <= p <= b for p, b in zip(world.pauses, bounds, strict=True))
    others = World(*(lost() for _ in range(9)))
    others.run()
    assert world.pauses != others.pauses


def test_patience_ends_with_the_problem() -> None:
    world = World(*(lost() for _ in range(1000)))
    with pytest.raises(CuratorUnreachable):
        world.run(patience=20.0)
    assert 14 < world.now <= 20


def test_too_fast_waits_as_long_as_it_is_told_and_costs_no_patience() -> None:
    world = World(*(too_fast(3.0) for _ in range(50)))
    assert world.run(patience=5.0) == "answer"
    assert world.pauses == [3.0] * 50


def test_too_fast_for_longer_than_patience_is_told_to_the_caller() -> None:
    world = World(too_fast(61.0))
    with pytest.raises(TooFast) as caught:
        world.run(patience=60.0)
    assert caught.value.retry_seconds == 61.0
    assert world.pauses == []


def test_unavailable_waits_at_least_what_it_is_told() -> None:
    world = World(CuratorUnavailable("busy", reason="UNAVAILABLE", retry_seconds=1.0))
    world.run()
    assert world.pauses == [1.0]


@pytest.mark.parametrize(
    "problem",
    [
        BudgetExhausted("PRIVACY_BUDGET_EXHAUSTED", "no", numbers=NUMBERS),
        DatasetPaused("DATASET_PAUSED", "no"),
        CuratorFailed("no"),
        ProtocolError("no"),
    ],
)
def test_what_is_final_is_asked_once(problem: AnalystError) -> None:
    world = World(problem)
    with pytest.raises(type(problem)):
        world.run()
    assert world.num_attempts == 1


def test_an_answer_that_took_long_before_it_was_lost_is_asked_for_again() -> None:
    world = World()

    def lost_after_a_long_time() -> str:
        world.num_attempts += 1
        world.now += 90.0 if world.num_attempts == 1 else 0.0
        if world.num_attempts < 4:
            raise lost()
        return "answer"

    assert world.run(patience=60.0, attempt=lost_after_a_long_time) == "answer"
    assert len(world.pauses) == 3


def test_a_deadline_that_passed_in_silence_is_not_waited_for_again() -> None:
    world = World()

    def silent() -> str:
        world.num_attempts += 1
        world.now += 1800.0
        raise CuratorSilent("no answer")

    with pytest.raises(CuratorSilent):
        world.run(patience=60.0, attempt=silent)
    assert world.num_attempts == 1
