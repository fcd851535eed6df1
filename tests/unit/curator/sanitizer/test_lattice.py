"""The lattice is exact: integer radii, truncation toward zero, certificates without overflow."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curator.sanitizer.lattice import (
    LATTICE_VARIANCE,
    is_certified,
    lattice_radius,
    squared_norm,
    truncate,
)


@given(st.floats(0.01, 1000.0), st.sampled_from([1, 2]))
def test_noise_over_sensitivity_is_never_below_what_is_charged(z: float, balls: int) -> None:
    radius = lattice_radius(z, sensitivity_in_radii=balls)
    assert (balls * radius * Fraction(z)) ** 2 <= LATTICE_VARIANCE
    assert (balls * (radius + 1) * Fraction(z)) ** 2 > LATTICE_VARIANCE  # and the largest such


def test_the_published_multiplier_has_the_radius_of_the_derivation() -> None:
    assert lattice_radius(1.1, sensitivity_in_radii=2) == 29789


@pytest.mark.parametrize("balls", [0, 3])
def test_an_unknown_sensitivity_is_refused(balls: int) -> None:
    with pytest.raises(ValueError, match="sensitivity_in_radii"):
        lattice_radius(1.0, sensitivity_in_radii=balls)


def test_a_multiplier_without_a_lattice_point_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        lattice_radius(1e6, sensitivity_in_radii=2)


def test_truncation_goes_toward_zero() -> None:
    vector = torch.tensor([1.99, -1.99, 0.5, -0.5, 2.0], dtype=torch.float64)
    assert truncate(vector, 1.0).tolist() == [1, -1, 0, 0, 2]


@given(st.lists(st.integers(-(2**62), 2**62), max_size=50), st.integers(1, 6_600_000))
def test_the_certificate_agrees_with_python_integers(values: list[int], radius: int) -> None:
    certified = is_certified(torch.tensor(values, dtype=torch.int64), radius)
    assert certified == (sum(value**2 for value in values) <= radius**2)


def test_the_certificate_does_not_overflow_on_a_large_vector() -> None:
    radius = 6_553_799
    vector = torch.full((1 << 18,), radius, dtype=torch.int64)
    assert squared_norm(vector, radius) == (1 << 18) * radius**2
    assert not is_certified(vector, radius)
