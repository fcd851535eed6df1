"""The scattering: integers against integers written out, floating point against integers."""

from __future__ import annotations

import itertools
import logging
import math

import pytest
import torch

from curator.divergences import scattering
from curator.divergences.scattering import (
    FILTER_BITS,
    LARGEST_COEFFICIENT,
    MAP_BITS,
    Scattering,
    exact_moduli,
    morlet_filters,
    why_plain,
)

SMALL = Scattering(channels=1, height=8, width=12)


def levels(num_records: int, scattering: Scattering, seed: int, top: int = 255) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    dimension = scattering.channels * scattering.height * scattering.width
    drawn = torch.randint(0, top + 1, (num_records, dimension), generator=generator)
    return drawn.to(torch.uint8)


def test_filters_are_balanced_integers_that_keep_sums_exact() -> None:
    filters = morlet_filters()
    assert filters.shape == (16, 7, 7)
    assert torch.equal(filters, filters.round())
    assert filters.sum((1, 2)).count_nonzero() == 0
    assert float(filters.abs().sum((1, 2)).max()) < 2 << FILTER_BITS


def test_a_wave_passes_the_filter_of_its_angle() -> None:
    axis = torch.arange(16.0)
    wave = (torch.cos(0.75 * math.pi * axis) + 1) / 2
    across = (wave.expand(16, 16) * (1 << MAP_BITS)).round().to(torch.int64)
    inner = exact_moduli(across[None, None])[0, :, 4:12, 4:12].double().mean((1, 2))
    assert int(inner.argmax()) == 0
    along = exact_moduli(across.T[None, None])[0, :, 4:12, 4:12].double().mean((1, 2))
    assert int(along.argmax()) == 4


def written_out_sum(part: list[list[float]], image: list[list[int]], y: int, x: int) -> int:
    """Return one value of a filtered image, surrounded by zeros."""
    return sum(
        int(part[row - y + 3][column - x + 3]) * image[row][column]
        for row in range(max(0, y - 3), min(len(image), y + 4))
        for column in range(max(0, x - 3), min(len(image[0]), x + 4))
    )


def test_exact_moduli_are_what_python_integers_say() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = torch.randint(0, (1 << MAP_BITS) + 1, (2, 1, 4, 6), generator=generator)
    maps[0] = 1 << MAP_BITS  # the largest sums
    maps[1, :, :2] = 0
    filters = morlet_filters().tolist()
    for image, result in zip(maps[:, 0].tolist(), exact_moduli(maps), strict=True):
        for angle, y, x in itertools.product(range(8), range(4), range(6)):
            real = written_out_sum(filters[angle], image, y, x)
            imaginary = written_out_sum(filters[8 + angle], image, y, x)
            root = math.isqrt(real**2 + imaginary**2 + (1 << 34))
            rounded = (root + (1 << (FILTER_BITS - 1))) >> FILTER_BITS
            assert int(result[angle, y, x]) == rounded


@pytest.mark.parametrize(
    ("channels", "height", "width"), [(1, 28, 28), (3, 8, 8), (1, 6, 9), (2, 16, 12)]
)
def test_private_and_public_coefficients_agree(channels: int, height: int, width: int) -> None:
    scattering = Scattering(channels=channels, height=height, width=width)
    stored = levels(5, scattering, seed=1)
    private = scattering.record_rows(stored, 255)
    public = scattering.rows(stored.to(torch.float64) / 127.5 - 1)
    assert private.shape == public.shape == (5, scattering.num_coefficients)
    assert private.dtype == torch.int64
    assert int(private.min()) >= 0
    assert int(private.max()) < LARGEST_COEFFICIENT
    assert float((private * 2.0**-MAP_BITS - public).abs().max()) < 5e-4


def test_the_gradient_matches_finite_differences() -> None:
    generator = torch.Generator().manual_seed(2)
    images = torch.rand(2, 96, dtype=torch.float64, generator=generator) * 2 - 1
    weights = torch.randn(2, SMALL.num_coefficients, dtype=torch.float64, generator=generator)
    moving = images.clone().requires_grad_()
    (slopes,) = torch.autograd.grad((SMALL.rows(moving) * weights).sum(), moving)
    for row, pixel in ((0, 0), (0, 50), (1, 95)):
        nudge = torch.zeros_like(images)
        nudge[row, pixel] = 1e-6
        rise = (SMALL.rows(images + nudge) - SMALL.rows(images - nudge)) * weights
        assert abs(float(rise.sum()) / 2e-6 - float(slopes[row, pixel])) < 1e-6


@pytest.fixture(params=["loops", "torch"])
def _each_body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "loops":
        pytest.importorskip("numba", reason="numba is not installed")
        assert why_plain() == ""
    else:
        monkeypatch.setattr(scattering, "why_plain", lambda: "no")


@pytest.mark.usefixtures("_each_body")
def test_a_record_does_not_know_its_companions(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = levels(40, SMALL, seed=3)
    rows = SMALL.record_rows(stored, 255)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(4))
    assert torch.equal(SMALL.record_rows(stored[order], 255), rows[order])
    assert torch.equal(SMALL.record_rows(stored[7:8], 255)[0], rows[7])
    monkeypatch.setattr(scattering, "_MAX_TILE_VALUES", 10_000)  # a few maps at a time
    assert torch.equal(SMALL.record_rows(stored, 255), rows)


@pytest.mark.usefixtures("_each_body")
def test_an_empty_border_changes_nothing() -> None:
    large = Scattering(channels=1, height=12, width=12)
    black = large.record_rows(torch.zeros((1, 144), dtype=torch.uint8), 255)
    first_orders = black.reshape(81, 9)
    assert int(first_orders[0].max()) == 0
    assert int(first_orders.max()) <= 6 * 9  # the floor under the modulus, and a rounding


@pytest.mark.parametrize(
    ("channels", "height", "width", "num_records"),
    [(1, 28, 28, 33), (3, 8, 8, 8), (1, 6, 9, 7), (2, 16, 44, 5), (1, 1, 1, 3)],
)
def test_loops_give_the_same_integers(
    channels: int, height: int, width: int, num_records: int
) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    assert why_plain() == ""
    chosen = Scattering(channels=channels, height=height, width=width)
    stored = levels(num_records, chosen, seed=5)
    stored[0] = torch.where(stored[0] > 127, 255, 0)  # the largest sums
    stored[1], stored[2, ::2] = 255, 0
    pixels = ((stored.to(torch.int64) << 17) + 255).div(510, rounding_mode="floor")
    assert torch.equal(chosen.record_rows(stored, 255), chosen.plain_rows(pixels))


def test_a_modulus_is_what_python_integers_say() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from curator.divergences.scattering_loops import _modulus

    for k in (1, 2, 3, 77, 4096, 65535, 92681, 131072):
        edge = math.isqrt((2 * k - 1) ** 2 << 26)
        for real in range(max(0, edge - 3), min(edge + 4, 2**31)):
            for imaginary in (0, 1, -12_345, real // 3):
                root = math.isqrt(real**2 + imaginary**2 + (1 << 34))
                assert int(_modulus(float(-real), float(imaginary))) == (root + 8192) >> 14


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = levels(30, SMALL, seed=6)
    alone = SMALL.record_rows(stored, 255)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(SMALL.record_rows(stored, 255), alone)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("find_spec", lambda _: None, "numba is not installed"),
        ("ThreadPoolExecutor", None, "its loops could not be compiled (TypeError)"),
        ("MAP_BITS", 15, "its loops give other integers"),
    ],
)
def test_loops_that_may_not_be_used_are_not(
    name: str,
    value: object,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = levels(3, SMALL, seed=7)
    rows = SMALL.record_rows(stored, 255)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, logger="curator"):
        patch.setattr(scattering, name, value)
        why_plain.cache_clear()
        assert why_plain() == reason
    assert reason in caplog.text
    assert torch.equal(SMALL.record_rows(stored, 255), rows)
    why_plain.cache_clear()
