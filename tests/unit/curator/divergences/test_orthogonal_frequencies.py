"""Structured orthogonal frequencies: what they are, that sums are exact, and the kernel."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch

from curator.divergences.orthogonal_frequencies import (
    hadamard,
    num_signs,
    orthogonal_frequencies,
    padded,
    random_signs,
)
from curator.divergences.random_features import orthogonal_features


def explicit_hadamard(size: int) -> list[list[int]]:
    return [[(-1) ** (i & j).bit_count() for j in range(size)] for i in range(size)]


def test_signs_are_pinned_and_streams_differ() -> None:
    signs = random_signs(7, 0, 5000)
    assert set(signs.tolist()) == {-1, 1}
    digest = hashlib.sha256(signs.tobytes()).hexdigest()
    assert digest == "71b48966acafa82da2c0f3f92acb3d23280de59c0ec0ab42f295aedc30396439"
    assert (random_signs(7, 1, 100) != signs[:100]).any()
    assert (random_signs(8, 0, 100) != signs[:100]).any()
    assert (random_signs(7, 0, 9) == signs[:9]).all()
    assert abs(int(random_signs(0, 0, 100_000).sum())) < 8 * 317  # fixed draws; 8 standard errors


@pytest.mark.parametrize("size", [1, 2, 8, 32, 64])
def test_the_matrix_is_that_of_hadamard(size: int) -> None:
    rows = hadamard(torch.eye(size, dtype=torch.float64))
    assert rows.tolist() == explicit_hadamard(size)


def test_products_are_what_python_integers_say() -> None:
    frequencies = orthogonal_frequencies(
        dimension=13, largest_input=2.0**20, num_frequencies=40, seed=3, stream=5
    )
    generator = np.random.default_rng(0)
    row = [int(one) for one in generator.integers(-(2**20), 2**20, 13)]
    signs = random_signs(3, 5, num_signs(40, 13)).reshape(-1, 3, 16)
    matrix, wanted = explicit_hadamard(16), []
    for changes in signs:
        values = [*row, 0, 0, 0]
        for change in changes.tolist():
            changed = [value * sign for value, sign in zip(values, change, strict=True)]
            values = [sum(a * b for a, b in zip(line, changed, strict=True)) for line in matrix]
        wanted += values
    exact = frequencies.exact_products(torch.tensor([row], dtype=torch.float64))
    assert [int(one) for one in exact[0].tolist()] == wanted[:40]


def test_sums_at_the_bound_are_exact_in_any_order() -> None:
    """The largest inputs of the largest size: the last bit must not be lost."""
    size, largest = 1 << 12, 2.0**29
    frequencies = orthogonal_frequencies(
        dimension=size, largest_input=largest, num_frequencies=size, seed=0, stream=0
    )
    for signs in (torch.ones(size), frequencies.signs_BCP[0, 0]):
        row = (signs.to(torch.float64) * largest).unsqueeze(0)
        row[0, 0] -= signs[0]
        alone = frequencies.exact_products(row)
        among = frequencies.exact_products(torch.cat([row.flip(1)] * 40 + [row]))[40:]
        unit = torch.zeros_like(row)
        unit[0, 0] = -signs[0]
        rest = frequencies.exact_products(row - unit)
        assert torch.equal(alone, among)
        assert torch.equal(alone - rest, frequencies.exact_products(unit))
        assert float(alone.abs().max()) <= 2.0**53


def test_directions_are_orthogonal_and_as_long_as_gaussian_ones() -> None:
    frequencies = orthogonal_frequencies(
        dimension=16, largest_input=1.0, num_frequencies=40, seed=0, stream=0
    )
    columns_DF = frequencies.products(torch.eye(16, dtype=torch.float64)) * frequencies.unit
    block = columns_DF[:, :16]
    torch.testing.assert_close(block.T @ block, 16 * torch.eye(16, dtype=torch.float64))
    assert not torch.equal(block, columns_DF[:, 16:32])


def test_a_product_is_the_same_for_public_rows() -> None:
    frequencies = orthogonal_frequencies(
        dimension=300, largest_input=2.0**16, num_frequencies=600, seed=1, stream=2
    )
    integers = torch.randint(-255, 256, (9, 300), generator=torch.Generator().manual_seed(0))
    exact = frequencies.exact_products(integers.double()) * frequencies.unit
    near = frequencies.products(integers.float()) * frequencies.unit
    assert float((exact - near).abs().max() / exact.abs().max()) < 1e-5


def test_mean_product_is_the_gaussian_kernel() -> None:
    features = orthogonal_features(
        dimension=256, largest_input=512.0, num_features=8192, bandwidths=(3.0, 9.0), seed=1
    )
    generator = torch.Generator().manual_seed(4)
    pixels = torch.rand((2, 256), generator=generator, dtype=torch.float64)
    product = float(features.rows(pixels[:1]) @ features.rows(pixels[1:]).T)
    distance = float((pixels[0] - pixels[1]).square().sum())
    kernel = sum(math.exp(-distance / (2 * width**2)) for width in (3.0, 9.0)) / 2
    assert abs(product - kernel) < 8 / 64  # eight times what 4,096 independent ones would have


def test_inputs_whose_sums_could_be_inexact_are_refused() -> None:
    assert padded(1 << 18) == 1 << 18
    with pytest.raises(ValueError, match="exact"):
        orthogonal_frequencies(
            dimension=(1 << 18) + 1, largest_input=2.0**16, num_frequencies=1, seed=0, stream=0
        )
