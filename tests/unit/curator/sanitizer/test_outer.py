"""Sums of outer products: certified row by row, rounded as a whole, noised like any other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from curator.privacy.release import LatticeBlock
from curator.sanitizer.averaged import FINE_STD, fine_radius
from curator.sanitizer.outer import (
    LEFT_RADIUS,
    MAX_VALUES,
    RIGHT_RADIUS,
    Factors,
    OuterBounds,
    _fine_sum,
    _integers,
    _is_certified,
    release_outer_sum,
    right_rows,
)
from tests.fakes.noise import NoNoise, SeededNoise

SHAPE = (3, 4)
BOUNDS = OuterBounds(shape=SHAPE, clip_norm=0.5, noise_multiplier=1.5)


def factors(num_rows: int, seed: int = 0) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    parts = (
        torch.randn((num_rows, width), generator=generator, dtype=torch.float64) for width in SHAPE
    )
    left, right = (part / part.norm(dim=1, keepdim=True) for part in parts)
    whole = (left * LEFT_RADIUS * 0.99).trunc(), (right * RIGHT_RADIUS * 0.99).trunc()
    return (*whole, torch.arange(num_rows))


def fine(*of: Factors) -> Tensor:
    return _fine_sum(lambda: iter(of), SHAPE)


@given(
    noise_multiplier=st.floats(0.01, 500),
    shape=st.tuples(st.integers(1, 100), st.integers(1, 6000)),
)
def test_two_sums_a_unit_apart_are_rounded_to_less_than_the_noise_is_for(
    noise_multiplier: float, shape: tuple[int, int]
) -> None:
    """In exact numbers: L R / D + sqrt(V) <= radius, and the noise over the radius is enough."""
    bounds = OuterBounds(shape=shape, clip_norm=1.0, noise_multiplier=noise_multiplier)
    radius = 2 * fine_radius(noise_multiplier)
    assert Fraction(FINE_STD, radius) >= Fraction(noise_multiplier)
    left = radius - Fraction(LEFT_RADIUS * RIGHT_RADIUS, bounds.spacing)
    assert left >= 0
    assert left**2 >= math.prod(shape)


@given(
    sums=st.lists(st.integers(-(2**61), 2**61), min_size=4, max_size=4),
    moves=st.lists(st.integers(-(2**14), 2**14), min_size=4, max_size=4),
    noise_multiplier=st.floats(1, 500),
)
def test_rounding_moves_each_coordinate_by_less_than_one_point_more(
    sums: list[int], moves: list[int], noise_multiplier: float
) -> None:
    bounds = OuterBounds(shape=(2, 2), clip_norm=1.0, noise_multiplier=noise_multiplier)
    scale = LEFT_RADIUS * RIGHT_RADIUS // 2**15  # so that moves have norm at most L R
    before = torch.tensor(sums)
    after = before + torch.tensor(moves) * scale
    apart = torch.div(after, bounds.spacing, rounding_mode="floor")
    apart -= torch.div(before, bounds.spacing, rounding_mode="floor")
    assert sum(int(one) ** 2 for one in apart) <= (2 * fine_radius(noise_multiplier)) ** 2


def test_the_sum_is_that_of_the_products_in_exact_integers() -> None:
    left, right, units = factors(50)
    expected = [[0] * SHAPE[1] for _ in range(SHAPE[0])]
    for row in range(50):
        for k in range(SHAPE[0]):
            for f in range(SHAPE[1]):
                expected[k][f] += int(left[row, k]) * int(right[row, f])
    assert fine((left, right, units)).tolist() == expected
    order = torch.randperm(50, generator=torch.Generator().manual_seed(2))
    halves = [(left[some], right[some], torch.arange(25)) for some in order.chunk(2)]
    assert fine(*halves).tolist() == expected


def test_however_many_rows_there_are_few_are_made_and_multiplied_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch of a large group would take gigabytes; the sum and the rows are the same."""
    left, right, _ = factors(50)
    left[7, 0], right[33, 1] = math.nan, math.inf
    units = torch.arange(50) // 2 - 1
    made: list[int] = []

    def rows_of(levels: Tensor) -> Tensor:
        made.append(len(levels))
        return right[levels[:, 0].long()]

    levels = torch.arange(50, dtype=torch.uint8).unsqueeze(1)
    width = SHAPE[1]
    rows, sums = right_rows(levels, rows_of, width), fine((left, right, units))
    monkeypatch.setattr("curator.sanitizer.outer._VALUES_AT_ONCE", 8 * width)
    assert torch.equal(right_rows(levels, rows_of, width), rows)
    assert made == [50, *[8] * 6, 2]
    assert torch.equal(fine((left, right, units)), sums)
    monkeypatch.setattr("curator.sanitizer.outer._VALUES_AT_ONCE", 1)  # less than one row has
    assert torch.equal(fine((left, right, units)), sums)


def test_a_row_beyond_its_radius_or_not_a_number_adds_nothing() -> None:
    left, right, units = factors(6)
    rest = fine((left[4:], right[4:], units[:2]))
    left[0] *= 1.1
    right[1] *= 1.1
    left[2, 0], right[3, 1] = math.nan, math.inf
    assert torch.equal(fine((left, right, units)), rest)


def test_the_certificate_agrees_with_python_integers() -> None:
    on_sphere = torch.tensor([[3.0, 4.0], [3.0, 4.9], [-5.0, 0.0], [4.0, 4.0], [1e300, 0.0]])
    on_sphere = torch.cat((on_sphere, torch.tensor([[math.nan, 0.0], [-math.inf, 0.0]])))
    whole = _integers(on_sphere)
    assert whole[:4].tolist() == [[3, 4], [3, 4], [-5, 0], [4, 4]]
    assert _is_certified(whole, 5).flatten().tolist() == [True] * 3 + [False] * 4
    wide = torch.full((1, 1 << 17), RIGHT_RADIUS, dtype=torch.int16)
    assert not _is_certified(_integers(wide), RIGHT_RADIUS)
    assert not _is_certified(_integers(wide.double() * 1e9), LEFT_RADIUS)


def test_the_records_of_a_unit_are_shared_out() -> None:
    """However many records a unit has, and whatever they are, it adds at most L R in norm."""
    left, right, _ = factors(5)
    left[:3], right[:3] = left[0], right[0]  # the worst: three records that agree
    together = fine((left, right, torch.tensor([0, 0, 0, 1, -1])))
    without = fine((left, right, torch.tensor([-1, -1, -1, 1, -1])))
    moved = (together - without).double()
    once = fine((left[:1], right[:1], torch.tensor([0]))).double()
    torch.testing.assert_close(moved, once, rtol=1e-4, atol=4 * RIGHT_RADIUS)
    assert float(moved.norm()) <= LEFT_RADIUS * RIGHT_RADIUS


def test_padding_does_not_make_units_smaller() -> None:
    left, right, _ = factors(6)
    alone = fine((left[:1], right[:1], torch.tensor([0])))
    padded = fine((left, right, torch.tensor([0, -1, -1, -1, -1, -1])))
    assert torch.equal(padded, alone)


def test_no_sum_can_be_inexact() -> None:
    from curator.sanitizer import outer

    assert outer._MOST_ROWS * LEFT_RADIUS * RIGHT_RADIUS <= 2**53
    rows = torch.zeros((3000, 4), dtype=torch.float64)
    rows[:, 0] = RIGHT_RADIUS
    left = torch.zeros((3000, 3), dtype=torch.float64)
    left[:, 2] = -LEFT_RADIUS
    total = fine((left, rows, torch.arange(3000)))
    assert int(total[2, 0]) == -3000 * LEFT_RADIUS * RIGHT_RADIUS


def test_whatever_goes_wrong_becomes_the_zero_vector() -> None:
    def raises() -> Iterator[Factors]:
        yield factors(2)
        raise RuntimeError

    left, right, units = factors(2)
    wrong = [
        raises,
        lambda: iter([(left[:1], right, units)]),
        lambda: iter([(left, right[:, :3], units)]),
    ]
    for compute in wrong:
        seeded = [
            release_outer_sum(one, bounds=BOUNDS, noise=SeededNoise(3))
            for one in (compute, lambda: iter(()))
        ]
        found, empty = (release.blocks[0] for release in seeded)
        assert isinstance(found, LatticeBlock)
        assert isinstance(empty, LatticeBlock)
        assert torch.equal(found.integers, empty.integers)
        assert found.integers.count_nonzero() > 0


def test_a_record_that_raises_does_not_take_its_companions_along() -> None:
    def rows_of(levels: Tensor) -> Tensor:
        if bool((levels == 9).any()):
            raise RuntimeError
        return levels.double() * 100

    levels = torch.tensor([[1, 2, 3, 4], [9, 0, 0, 0], [5, 6, 7, 8]], dtype=torch.uint8)
    rows = right_rows(levels, rows_of, 4)
    assert rows.tolist() == [[100, 200, 300, 400], [0] * 4, [500, 600, 700, 800]]
    assert right_rows(levels[:1], rows_of, 3).count_nonzero() == 0  # of another width


def test_the_release_is_in_the_units_of_the_clip_norm() -> None:
    left, right, units = factors(1)
    release = release_outer_sum(
        lambda: iter([(left, right, units)]), bounds=BOUNDS, noise=NoNoise()
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    expected = left.T @ right * (0.5 / (LEFT_RADIUS * RIGHT_RADIUS))
    torch.testing.assert_close(
        block.integers.double() * block.grid, expected, rtol=0, atol=1.01 * block.grid
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"shape": (1, MAX_VALUES + 1)}, "at most"),
        ({"noise_multiplier": 1e6}, "too large for a sum of 12 values"),
        ({"shape": (100, 5000), "noise_multiplier": 4000.0}, "too large"),
    ],
)
def test_sums_of_no_use_are_refused(changes: dict[str, object], words: str) -> None:
    fields = {"shape": SHAPE, "clip_norm": 0.5, "noise_multiplier": 1.5}
    with pytest.raises(ValueError, match=words):
        OuterBounds(**(fields | changes))  # type: ignore[arg-type]
