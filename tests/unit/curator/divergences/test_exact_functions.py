"""Functions of numbers on a grid: near the mathematical ones, and the same bits in any company."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from curator.divergences import exact_functions as exact
from curator.divergences.exact_functions import (
    ACTIVATION_STEP,
    LARGEST_ACTIVATION,
    MAX_TOKENS,
    MAX_WIDTH,
    SHARE_UNITS,
    WEIGHT_STEP,
)

EXACT = 2**53
MOST = round(LARGEST_ACTIVATION / ACTIVATION_STEP)


def drawn(*size: int, seed: int = 0, scale: float = 2.0) -> Tensor:
    numbers = torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return exact.settled(numbers * scale)


def test_no_sum_can_be_inexact() -> None:
    assert MAX_WIDTH * (2 * MOST) ** 2 <= EXACT  # squares of what is left about a mean
    assert MAX_WIDTH * MOST**2 <= EXACT  # scores
    assert MAX_TOKENS * SHARE_UNITS * MOST <= EXACT  # values by shares
    assert 4 * round(2 / WEIGHT_STEP) * round(LARGEST_ACTIVATION / WEIGHT_STEP) <= EXACT


def test_exponentials_are_near() -> None:
    exponents = torch.linspace(-16, 0, 10_001, dtype=torch.float64)
    found = exact.exponential(exponents)
    torch.testing.assert_close(found, exponents.exp(), rtol=1e-8, atol=0)
    below = exact.exponential(torch.tensor([-16.0, -17.0, -1e9], dtype=torch.float64))
    assert bool((below == found[0]).all())
    assert round(float(found[0]) * SHARE_UNITS) == 0
    assert float(found[-1]) == 1


def test_gelu_is_near() -> None:
    values = torch.linspace(-512, 512, 100_001, dtype=torch.float64)
    torch.testing.assert_close(exact.gelu(values), functional.gelu(values), rtol=0, atol=1e-6)


def test_tokens_are_standardised() -> None:
    tokens = drawn(50, 24)
    expected = functional.layer_norm(tokens, (24,), eps=1e-6)
    torch.testing.assert_close(exact.standardised(tokens, 1e-6), expected, rtol=0, atol=2e-4)
    constant = torch.full((2, 24), 3.0, dtype=torch.float64)
    assert exact.standardised(constant, 1e-6).count_nonzero() == 0


def test_attention_is_near() -> None:
    queries, keys, values = (drawn(3, 40, 8, seed=seed) for seed in range(3))
    expected = functional.scaled_dot_product_attention(queries, keys, values)
    torch.testing.assert_close(exact.attended(queries, keys, values), expected, rtol=0, atol=1e-4)


def test_the_largest_attention_is_exact() -> None:
    """All tokens alike, at the largest number of them and the largest values."""
    values = torch.full((MAX_TOKENS, 2), LARGEST_ACTIVATION, dtype=torch.float64)
    values[::2, 1] -= ACTIVATION_STEP
    found = exact.attended(values[:1], torch.zeros_like(values), values)
    exact_sum = sum(int(one / ACTIVATION_STEP) * SHARE_UNITS for one in values[:, 1].tolist())
    assert float(found[0, 0]) == LARGEST_ACTIVATION
    assert float(found[0, 1]) == exact_sum * ACTIVATION_STEP / (SHARE_UNITS * MAX_TOKENS)
    far = exact.attended(values, values.flip(0), values)
    assert bool(far.isfinite().all())


@pytest.mark.parametrize(("inputs", "outputs"), [(37, 16), (37, 2), (37, 37), (3, 7), (1, 4)])
def test_positions_are_interpolated(inputs: int, outputs: int) -> None:
    row = drawn(1, 5, inputs, 1)
    expected = functional.interpolate(row, (outputs, 1), mode="bicubic", align_corners=False)
    found = exact.cubic_weights(inputs, outputs) @ row
    torch.testing.assert_close(found, expected, rtol=0, atol=4 * 16 * WEIGHT_STEP)
    if inputs == outputs:
        assert torch.equal(found, row)


def _attended_alike(tokens: Tensor) -> Tensor:
    tokens = exact.settled(tokens * 8)
    return exact.attended(tokens, tokens.flip(-1), tokens)


@pytest.mark.parametrize(
    "function",
    [
        lambda tokens: exact.exponential(-tokens.abs()),
        exact.gelu,
        lambda tokens: exact.standardised(tokens, 1e-6),
        _attended_alike,
    ],
)
def test_a_row_has_the_same_bits_in_any_company(function: Callable[[Tensor], Tensor]) -> None:
    """In batches of every small size, at every place of them."""
    rows = drawn(23, 5, 7)
    found = function(rows)
    for count in range(1, 23):
        for first in range(0, 23, count):
            part = rows[first : first + count]
            assert torch.equal(function(part.clone()), found[first : first + count])
    assert torch.equal(function(rows[7, 3:4]), function(rows[7:8, 3:4])[0])
