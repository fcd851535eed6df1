"""Counts of choices: every record one option or none, every unit within its bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.privacy.release import LatticeBlock
from curator.sanitizer import choices
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.choices import (
    MAX_OPTIONS,
    ChoiceBounds,
    Choices,
    choices_of,
    release_choices,
)
from curator.sanitizer.entropy import OsEntropy
from tests.fakes.noise import NoNoise


def bounds(**changes: Any) -> ChoiceBounds:
    fields: dict[str, Any] = {"num_options": 4, "records_per_unit": 2, "noise_multiplier": 1.3}
    return ChoiceBounds(**(fields | changes))


def released(compute: Callable[[], Iterable[Choices]], **changes: Any) -> LatticeBlock:
    release = release_choices(compute, bounds=bounds(**changes), noise=NoNoise())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block


def counts(chosen: list[int], units: list[int], **changes: Any) -> list[int]:
    given = torch.tensor(chosen), torch.tensor(units)
    block, scale = released(lambda: [given], **changes), bounds(**changes).scale
    assert block.grid == 1 / scale
    assert not (block.integers % scale).any()
    found: list[int] = (block.integers // scale).tolist()
    return found


def test_counts_are_the_numbers_of_records() -> None:
    assert counts([0, 3, 3, 1, -1, 0], [0, 1, 2, 3, 4, 5]) == [2, 1, 0, 2]


@pytest.mark.parametrize("option", [-1, -(2**63), 4, 2**62])
def test_choices_that_are_no_option_are_silence(option: int) -> None:
    assert counts([option, 1], [0, 1]) == [0, 1, 0, 0]


@pytest.mark.parametrize("unit", [-1, 4, 2**62, -(2**63)])
def test_rows_of_no_unit_count_for_nothing(unit: int) -> None:
    assert counts([1, 1, 2, 2], [0, 1, unit, unit]) == [0, 2, 0, 0]


def test_a_unit_with_more_records_than_its_bound_adds_nothing() -> None:
    assert counts([1, 1, 2, 0], [0, 0, 1, 0]) == [0, 0, 1, 0]
    assert counts([1, 1, 2, 0], [0, 0, 1, 3]) == [1, 2, 1, 0]
    assert counts([1, 1, 2, 0], [0, 0, 1, 0], records_per_unit=3) == [1, 2, 1, 0]
    assert counts([1, 1, 2, 0], [0, 0, 1, 2], records_per_unit=1) == [1, 0, 1, 0]


def test_batches_are_added_and_tallied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [(torch.randint(-1, 5, (7,), generator=generator), torch.arange(7)) for _ in range(3)]
    whole = released(lambda: parts).integers
    alone = [released(lambda one=one: [one]).integers for one in parts]  # type: ignore[misc]
    assert torch.equal(whole, torch.stack(alone).sum(dim=0))
    monkeypatch.setattr(choices, "_MAX_ENTRIES", 1)
    assert torch.equal(released(lambda: parts).integers, whole)
    assert not released(list).integers.any()


@pytest.mark.parametrize("z", [0.01, 0.3, 1.0, 9.24, 75.2, 4_000.0, 32_000.0, 1 / 3])
@pytest.mark.parametrize("most", [1, 2, 7, 200])
def test_noise_over_sensitivity_is_never_below_what_is_charged(z: float, most: int) -> None:
    scale = bounds(noise_multiplier=z, records_per_unit=most).scale
    assert Fraction(FINE_STD) >= Fraction(z) * most * scale
    assert Fraction(FINE_STD) < Fraction(z) * most * (scale + 2)  # no more noise than that
    assert scale << 32 < 1 << 62


def _failing() -> Iterator[Choices]:
    yield torch.ones(2, dtype=torch.int64), torch.arange(2)
    raise MemoryError


@pytest.mark.parametrize(
    "compute",
    [
        _failing,
        lambda: [(torch.ones(2, dtype=torch.int64), torch.arange(3))],
        lambda: [(torch.ones(2, 1, dtype=torch.int64), torch.arange(2))],
        lambda: [(torch.ones(2), torch.arange(2))],
        lambda: [(torch.ones(2, dtype=torch.int64), torch.zeros(2))],
        lambda: [None],
        lambda: None,
    ],
)
def test_whatever_goes_wrong_becomes_zero_counts(compute: Any) -> None:
    block = released(compute)
    assert block.integers.shape == (4,)
    assert not block.integers.any()


def test_a_record_that_raises_is_silent_and_takes_nobody_along() -> None:
    def choose(levels: Tensor, labels: Tensor) -> Tensor:
        if bool((levels == 7).any()):
            raise RuntimeError
        return labels

    levels, labels = torch.tensor([[1], [7], [3]]), torch.tensor([2, 1, 0])
    assert choices_of(choose, (levels, labels)).tolist() == [2, -1, 0]


@pytest.mark.parametrize(
    "bad", [torch.zeros(3), torch.zeros((3, 1), dtype=torch.int64), torch.zeros(2).long(), None]
)
def test_choices_of_another_shape_or_type_are_silence(bad: Any) -> None:
    assert choices_of(lambda _: bad, (torch.zeros(3, 2),)).tolist() == [-1, -1, -1]


def test_the_noise_has_the_fine_standard_deviation() -> None:
    """20,000 draws: a false alarm has probability below 1e-7 (5.4 standard errors)."""
    of = bounds(num_options=20_000, noise_multiplier=2.5)
    release = release_choices(list, bounds=of, noise=OsEntropy())
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    std = float((block.integers.double() * block.grid).std())
    assert std == pytest.approx(2.5 * 2, rel=5.4 / math.sqrt(2 * 20_000) + 1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_options": 0}, "options"),
        ({"num_options": MAX_OPTIONS + 1}, "options"),
        ({"records_per_unit": 0}, "lattice"),
        ({"records_per_unit": 1 << 16, "noise_multiplier": 1e3}, "lattice"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
    ],
)
def test_bounds_that_no_release_should_have_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        bounds(**changes)
