"""Running totals are the sums over runs, to the unit, whatever came and went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.accounting.cost import Cost, total_cost
from curator.accounting.orders import ORDERS
from curator.ledger.totals import Tally

units = st.none() | st.integers(0, 2**300)
costs = st.lists(units, min_size=len(ORDERS), max_size=len(ORDERS)).map(lambda u: Cost(tuple(u)))
uses = st.lists(st.tuples(costs, st.integers(0, 2**40)), max_size=6)


@given(stays=uses, goes=uses)
def test_what_was_added_can_be_taken_away_and_leaves_the_sum(
    stays: list[tuple[Cost, int]], goes: list[tuple[Cost, int]]
) -> None:
    tally = Tally()
    for cost, times in [*stays, *goes]:
        tally = tally.plus(cost, times)
    assert tally.cost == total_cost([*stays, *goes])
    assert Tally.from_json(tally.to_json()) == tally
    for cost, times in goes:
        tally = tally.plus(cost, -times)
    assert tally.cost == total_cost(stays)
    assert Tally.from_json(tally.to_json()) == tally


@given(has=costs, more=costs)
def test_nothing_is_taken_away_that_is_not_there(has: Cost, more: Cost) -> None:
    tally = Tally().plus(has, 1)
    is_there = all(
        infinite > 0 if unit is None else unit <= finite
        for finite, infinite, unit in zip(tally.finite, tally.infinite, more.units, strict=True)
    )
    if is_there:
        assert tally.plus(more, -1).plus(more, 1) == tally
    else:
        with pytest.raises(ValueError, match="below zero"):
            tally.plus(more, -1)
