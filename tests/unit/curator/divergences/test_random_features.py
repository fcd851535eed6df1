"""Public frequencies, exact private rows, ordinary generated rows."""

from __future__ import annotations

import hashlib

import pytest
import torch

from curator.divergences.feature_maps import PixelFeatures
from curator.divergences.random_features import fourier_features, standard_normals

FEATURES = PixelFeatures(
    fourier=fourier_features(
        dimension=12, largest_input=512.0, num_features=24, bandwidths=(1.0, 2.0, 4.0), seed=7
    ),
    max_level=16,
)


def test_draws_are_pinned() -> None:
    draws = standard_normals(7, 0, 5000)
    digest = hashlib.sha256(draws.astype("<i4").tobytes()).hexdigest()
    assert digest == "ec26b3585e2c461dcd680220db80b1636f008ce6e56cee99260aaa836b5b0b4e"


def test_draws_are_standard_normal_and_streams_differ() -> None:
    # 100,000 fixed draws: a bound of 8 standard errors on each moment
    draws = standard_normals(0, 0, 100_000) * 2.0**-12
    assert abs(draws.mean()) < 8 / 316
    assert abs(draws.var() - 1) < 8 * 1.4142 / 316
    assert abs((draws**4).mean() - 3) < 8 * 9.8 / 316
    assert (standard_normals(0, 1, 100) != standard_normals(0, 0, 100)).any()
    assert (standard_normals(1, 0, 100) != standard_normals(0, 0, 100)).any()


def test_a_shorter_request_is_a_prefix() -> None:
    assert (standard_normals(3, 2, 9) == standard_normals(3, 2, 40)[:9]).all()


def test_private_and_generated_rows_agree() -> None:
    levels = torch.randint(0, 17, (9, 12), generator=torch.Generator().manual_seed(0))
    private = FEATURES.record_rows(levels.to(torch.uint8))
    generated = FEATURES.rows(levels.to(torch.float64) / 8 - 1)
    # the table has 2^16 entries: phases are rounded by at most pi / 2^16
    assert float((private - generated).norm(dim=1).max()) < 5e-5


def test_rows_have_norm_one_and_never_more() -> None:
    levels = torch.randint(0, 17, (200, 12), generator=torch.Generator().manual_seed(1))
    norms = FEATURES.record_rows(levels.to(torch.uint8)).norm(dim=1)
    assert float(norms.max()) <= 1
    assert float(norms.min()) >= 1 - 2.0**-39


def test_mean_product_is_the_gaussian_kernel() -> None:
    wide = fourier_features(
        dimension=3, largest_input=512.0, num_features=20_000, bandwidths=(0.8,), seed=1
    )
    pixels = torch.tensor([[0.1, -0.2, 0.3], [0.4, 0.2, -0.1]], dtype=torch.float64)
    product = wide.rows(pixels[:1]) @ wide.rows(pixels[1:]).T
    kernel = torch.exp(-(pixels[0] - pixels[1]).square().sum() / (2 * 0.8**2))
    assert abs(float(product - kernel)) < 8 / 100  # 8 / sqrt(10,000 frequencies)


def test_inputs_whose_sums_could_be_inexact_are_refused() -> None:
    with pytest.raises(ValueError, match="exact"):
        fourier_features(
            dimension=(1 << 17) + 1,
            largest_input=2.0**20,
            num_features=2,
            bandwidths=(1.0,),
            seed=0,
        )


def test_streams_of_two_maps_under_one_seed_differ() -> None:
    first, second = (
        fourier_features(
            dimension=5,
            largest_input=512.0,
            num_features=4,
            bandwidths=(1.0,),
            seed=0,
            first_stream=stream,
        )
        for stream in (0, 32)
    )
    point = torch.ones((1, 5), dtype=torch.float64)
    assert (first.rows(point) != second.rows(point)).any()


@pytest.mark.parametrize("num_features", [0, 8, 25])
def test_features_must_be_shared_equally(num_features: int) -> None:
    with pytest.raises(ValueError, match="multiple"):
        fourier_features(
            dimension=2,
            largest_input=512.0,
            num_features=num_features,
            bandwidths=(1.0, 2.0, 3.0),
            seed=0,
        )


def test_parts_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = torch.randint(0, 17, (30, 12), generator=torch.Generator().manual_seed(9))
    whole = FEATURES.record_rows(levels.to(torch.uint8))
    monkeypatch.setattr("curator.divergences.random_features.values_at_once", lambda _: 3 * 24)
    assert torch.equal(FEATURES.record_rows(levels.to(torch.uint8)), whole)
    assert torch.equal(FEATURES.record_rows(levels[5:6].to(torch.uint8)), whole[5:6])
