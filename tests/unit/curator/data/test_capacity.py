"""A capacity that cuts most samples is refused, one that cuts some is told."""

from __future__ import annotations

import pytest

from curator.data.capacity import capacity_warning, check_capacity, enough_rows
from curator.data.errors import SourceError
from tests.fakes.facts import small_facts


def test_a_rate_that_is_a_fraction_gives_a_whole_mean() -> None:
    facts = small_facts(nominal_size=1437, max_size=1500, sampling_rate=40 / 1437, capacity=40)
    check_capacity(facts)  # 40 is not below 40.000000000000004
    assert enough_rows(facts.sampling_rate * 1437) == enough_rows(40.0) == 91
    assert enough_rows(16.0) == 48


def test_nothing_is_cut_where_a_batch_holds_every_record() -> None:
    facts = small_facts(nominal_size=50, max_size=60, sampling_rate=1.0, capacity=60)
    assert enough_rows(50.0) > 60
    assert capacity_warning(facts) is None
    assert capacity_warning(facts.model_copy(update={"capacity": 59})) is not None


def test_groups_have_at_least_one_record_each() -> None:
    facts = small_facts(
        nominal_size=400, max_size=500, sampling_rate=0.1, unit="group", max_records_per_group=3,
        capacity=39,
    )  # fmt: skip
    with pytest.raises(SourceError, match="below the 40 groups"):
        check_capacity(facts)
    check_capacity(facts.model_copy(update={"capacity": 40}))
    # as many as 3 of each of 40 groups: 120 + 8 sqrt(120)
    assert capacity_warning(facts.model_copy(update={"capacity": 207})) is not None
    assert capacity_warning(facts.model_copy(update={"capacity": 208})) is None
