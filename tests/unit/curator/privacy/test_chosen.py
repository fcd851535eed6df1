"""Choosing by arithmetic gives what torch's branches do, and takes their place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from curator.mechanisms import record_choices, score, votes
from curator.privacy.chosen import chosen
from curator.sanitizer import choices

MOST, LEAST = torch.iinfo(torch.int64).max, torch.iinfo(torch.int64).min


@pytest.mark.parametrize("other", [-1, 0, 7])
def test_it_is_what_where_says(other: int) -> None:
    draws = torch.Generator().manual_seed(0)
    values = torch.randint(-(1 << 40), 1 << 40, (500,), generator=draws)
    condition = torch.rand(500, generator=draws) < 0.5
    assert chosen(condition, values, other).equal(torch.where(condition, values, other))


@pytest.mark.parametrize("other", [-1, 0, 7])
def test_numbers_at_the_ends_wrap_and_come_back(other: int) -> None:
    """What a mechanism gives out of range must not become a unit or an option."""
    values = torch.tensor([MOST, LEAST, MOST, LEAST])
    condition = torch.tensor([True, True, False, False])
    assert chosen(condition, values, other).tolist() == [MOST, LEAST, other, other]


def test_the_first_of_the_least_is_chosen() -> None:
    far = torch.tensor([[3.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 5.0, -1.0]])
    assert record_choices.first_of_least(far).tolist() == [1, 0, 2]


@pytest.mark.parametrize("module", [choices, record_choices, score, votes])
def test_records_choose_without_a_branch_of_the_library(module: object) -> None:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert not [name for name in ("torch.where", "masked_fill", ".where(") if name in source]
