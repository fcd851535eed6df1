"""Features of codes: exact integers for records, and the same numbers for images."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from curator.divergences.autoencoder import (
    LARGEST_CODE,
    AutoencoderShape,
    EncoderFeatures,
    autoencoder_parameters,
    initial_autoencoder,
    on_grid,
)
from curator.divergences.random_features import fourier_features

SHAPE = AutoencoderShape(dimension=6, hidden_width=5, code_width=3)


def features(scale: float = 1.0, max_level: int = 16) -> EncoderFeatures:
    generator = torch.Generator().manual_seed(2)
    start = initial_autoencoder(SHAPE, 1)
    weights = on_grid((start + 0.1 * torch.randn(start.shape, generator=generator)) * scale)
    fourier = fourier_features(
        dimension=3,
        largest_input=LARGEST_CODE,
        num_features=40,
        bandwidths=(0.5, 1.0),
        seed=4,
    )
    encoder = autoencoder_parameters(SHAPE, weights)
    return EncoderFeatures(fourier=fourier, encoder=encoder, max_level=max_level)


def levels(num_rows: int, max_level: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, max_level + 1, (num_rows, 6), generator=generator).to(torch.uint8)


@pytest.mark.parametrize("max_level", [1, 16, 255])
def test_both_faces_say_the_same(max_level: int) -> None:
    subject = features(max_level=max_level)
    images = levels(50, max_level).double() * (2 / max_level) - 1
    private, public = subject.record_rows(levels(50, max_level)), subject.rows(images)
    assert private.shape == public.shape == (50, 40)
    assert float((private - public).norm(dim=1).max()) < 5e-3
    assert float(private.norm(dim=1).max()) <= 1
    assert float(private.norm(dim=1).min()) > 1 - 1e-9


def test_codes_are_what_exact_fractions_say() -> None:
    subject, given = features(), levels(20)
    found = subject.record_codes(given)
    weights = {name: value.double().tolist() for name, value in subject.encoder.items()}
    for row, code in zip(given.tolist(), found.tolist(), strict=True):
        pixels = [Fraction(2 * level - 16, 16) for level in row]
        hidden = []
        for line, bias in zip(
            weights["encoder.hidden.weight"], weights["encoder.hidden.bias"], strict=True
        ):
            value = sum(Fraction(w) * x for w, x in zip(line, pixels, strict=True)) + Fraction(bias)
            value = value if value > 0 else value * Fraction(0.2)
            hidden.append(Fraction(math.floor(value * 4096), 4096))
        for line, bias, entry in zip(
            weights["encoder.code.weight"], weights["encoder.code.bias"], code, strict=True
        ):
            value = sum(Fraction(w) * h for w, h in zip(line, hidden, strict=True)) + Fraction(bias)
            assert abs(math.floor(value / (abs(value) + 1) * 4096) - entry) <= 1  # of float64


@pytest.mark.parametrize("scale", [0.0, 1e3, 1e12])
def test_any_weights_give_rows_of_norm_one(scale: float) -> None:
    subject = features(scale)
    rows = subject.record_rows(levels(9))
    assert bool(torch.isfinite(rows).all())
    assert float(rows.norm(dim=1).max()) <= 1
    assert float(subject.record_codes(levels(9)).abs().max()) <= LARGEST_CODE


def test_a_row_does_not_know_its_companions() -> None:
    subject, given = features(), levels(64)
    whole = subject.record_rows(given)
    for start, stop in ((0, 1), (5, 38), (63, 64)):
        assert torch.equal(subject.record_rows(given[start:stop]), whole[start:stop])
