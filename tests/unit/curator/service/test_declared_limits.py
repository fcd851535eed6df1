from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from curator.errors import NotPermitted
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.privacy.facts import DatasetFacts
from curator.service.checks import check_policy
from tests.fakes.facts import small_facts

PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 8,
    "num_samples": 2,
    "num_projections": 3,
    "clip_norm": 1.0,
    "label_scale": 0.5,
    "origin": "black",
    "noise_multiplier": 1.0,
    "max_size": 10,
    "max_records_per_unit": 1,
}


def mechanism(facts: DatasetFacts, **changes: object) -> DpSwd:
    return DpSwd(DpSwdSpec(**(PARAMETERS | changes)), facts.space)


def grouped() -> DatasetFacts:
    return small_facts(unit="group", max_records_per_group=3)


def test_bounds_that_are_declared_or_above_are_permitted() -> None:
    records = small_facts()
    check_policy(mechanism(records), records)
    check_policy(mechanism(records, max_size=11, max_records_per_unit=2), records)
    groups = grouped()
    check_policy(mechanism(groups, max_records_per_unit=3), groups)


def test_bounds_below_the_declared_ones_are_refused() -> None:
    records, groups = small_facts(), grouped()
    with pytest.raises(NotPermitted, match="max_size must be at least 10"):
        check_policy(mechanism(records, max_size=9), records)
    with pytest.raises(NotPermitted, match="max_records_per_unit must be at least 3"):
        check_policy(mechanism(groups, max_records_per_unit=2), groups)


@pytest.mark.parametrize("change", [{"sampling_rate": 0.51}, {"capacity": 9}])
def test_rate_and_capacity_stay_within_the_declared_ones(change: dict[str, object]) -> None:
    records = small_facts()
    (key,) = change
    with pytest.raises(NotPermitted, match=f"mechanism.{key} may be at most") as refused:
        check_policy(mechanism(records, **change), records)
    assert f"and is {change[key]}" in refused.value.detail
    assert "policy" not in refused.value.public_message
    assert "with --set" in refused.value.remedy
    assert "no steward can allow more" in refused.value.remedy


@given(st.integers(1, 70_000), st.floats(1e-6, 1.0))
@example(379, 0.98)
def test_the_batch_that_is_said_to_fit_does(nominal_size: int, rate: float) -> None:
    records = small_facts(nominal_size=nominal_size, max_size=70_000, sampling_rate=rate)
    if rate == 1:
        return
    with pytest.raises(NotPermitted) as refused:
        check_policy(mechanism(records, sampling_rate=1.0, max_size=70_000), records)
    most = float(refused.value.detail.partition("size may be at most ")[2].partition(" of ")[0])
    check_policy(mechanism(records, sampling_rate=most / nominal_size, max_size=70_000), records)
    assert most >= 0.99999 * rate * nominal_size
