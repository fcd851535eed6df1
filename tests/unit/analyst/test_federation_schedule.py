"""Rounds, turns and shares as arithmetic, against a simulation that asks round by round."""

from __future__ import annotations

from itertools import product

import pytest

from analyst.training.federation.rounds import Combine, OnLoss, Rule, asked, rounds_left, shares


def _rule(combine: str, on_loss: str) -> Rule:
    return Rule(combine=Combine(combine), on_loss=OnLoss(on_loss), patience_s=0.0)


def _simulate(left: list[int], rule: Rule, next_round: int) -> int:
    """Count rounds by taking steps away, one round after the other."""
    left, count = list(left), 0
    while True:
        if rule.on_loss is OnLoss.STOP:
            everyone = range(len(left))
            turn = [(next_round + count - 1) % len(left)]
            chosen = turn if rule.combine is Combine.ROUND_ROBIN else list(everyone)
        else:
            chosen = asked(left, rule, this_round=next_round + count)
        if not chosen or any(left[k] == 0 for k in chosen):
            return count
        for k in chosen:
            left[k] -= 1
        count += 1


@pytest.mark.parametrize("on_loss", list(OnLoss))
@pytest.mark.parametrize("combine", list(Combine))
def test_rounds_left_is_what_a_simulation_takes(combine: str, on_loss: str) -> None:
    rule = _rule(combine, on_loss)
    for left in product(range(4), repeat=3):
        for next_round in range(1, 8):
            expected = _simulate(list(left), rule, next_round)
            assert rounds_left(left, rule, next_round=next_round) == expected, (left, next_round)


@pytest.mark.parametrize("on_loss", list(OnLoss))
@pytest.mark.parametrize("combine", list(Combine))
def test_what_is_declared_lasts_for_the_affordable_rounds(combine: str, on_loss: str) -> None:
    rule = _rule(combine, on_loss)
    for affordable in product(range(1, 6), repeat=3):
        most = rounds_left(affordable, rule, next_round=1)
        for rounds in range(1, most + 1):
            declared = shares(rounds, affordable, rule)
            assert all(d <= a for d, a in zip(declared, affordable, strict=True))
            assert rounds_left(declared, rule, next_round=1) == rounds


def test_turns_are_even_and_pass_over_those_without_a_step() -> None:
    rule = _rule("round-robin", "continue")
    assert [asked([9, 9, 9], rule, this_round=r) for r in (1, 2, 3, 4)] == [[0], [1], [2], [0]]
    assert [asked([9, 0, 9], rule, this_round=r) for r in (1, 2, 3)] == [[0], [2], [0]]
    assert asked([0, 0], rule, this_round=1) == []
    assert asked([1, 0, 2], _rule("mean", "continue"), this_round=1) == [0, 2]


def test_stop_declares_the_whole_part_even_where_it_is_not_affordable() -> None:
    assert shares(10, [3, 20], _rule("mean", "stop")) == [10, 10]
    assert shares(10, [3, 20], _rule("mean", "continue")) == [3, 10]
    assert shares(11, [3, 20], _rule("round-robin", "stop")) == [6, 5]
    assert shares(11, [3, 20], _rule("round-robin", "continue")) == [3, 8]
    assert shares(9, [0, 0], _rule("round-robin", "continue")) == [0, 0]
