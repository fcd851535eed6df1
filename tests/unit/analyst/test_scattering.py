"""The analyst's scattering: compiled loops do what plain torch does, or say why they do not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from analyst.embedding import scattering as module
from analyst.embedding.scattering import plain_scattering, scattering, why_plain
from analyst.embedding.sessions import _say_why_plain
from analyst.training.progress import Progress
from tests.unit.analyst.test_embedding import saved
from tests.unit.curator.mechanisms.test_mean_embedding import MIX, PARAMETERS

pytest.importorskip("numba", reason="numba is not installed")


@pytest.fixture(autouse=True)
def _asked_again() -> Iterator[None]:
    why_plain.cache_clear()
    yield
    why_plain.cache_clear()


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator) * 2 - 1


def with_slopes(transform: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows, and the derivative of a weighted sum of them."""
    moving = pixels.clone().requires_grad_()
    rows = transform(moving)
    weights = torch.linspace(0, 900, rows.numel(), dtype=torch.float64).sin().view_as(rows)
    (slopes,) = torch.autograd.grad(rows, moving, weights.to(rows.dtype))
    return rows.detach().double(), slopes.double()


@pytest.mark.parametrize(
    "shape", [(1, 1, 28, 28), (33, 1, 8, 8), (16, 3, 6, 9), (5, 2, 44, 12), (2, 1, 1, 40)]
)
def test_loops_do_what_torch_does(shape: tuple[int, ...]) -> None:
    assert why_plain() == ""
    pixels = images(*shape)
    pixels[0, :, : shape[2] // 2] = -1  # flat and black, where a modulus has its smallest value
    got, exact = with_slopes(scattering, pixels), with_slopes(plain_scattering, pixels.double())
    for one, other in zip(got, exact, strict=True):
        assert one.shape == other.shape
        assert float((one - other).abs().max()) < 1e-5


def test_images_have_no_companions() -> None:
    pixels = images(20, 1, 12, 12)
    rows = scattering(pixels)
    assert torch.equal(scattering(pixels.flip(0)), rows.flip(0))
    assert torch.equal(scattering(pixels[17:18]), rows[17:18])
    assert scattering(pixels[:0]).shape == (0, rows.shape[1])


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = images(70, 1, 8, 8)
    alone = with_slopes(scattering, pixels)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for one, other in zip(with_slopes(scattering, pixels), alone, strict=True):
        assert torch.equal(one, other)


def test_strided_images_are_read_as_they_are() -> None:
    pixels = images(3, 8, 12, 2)
    strided = pixels.permute(0, 3, 1, 2)
    assert torch.equal(scattering(strided), scattering(strided.contiguous()))


def test_without_numba_there_is_torch(
    monkeypatch: pytest.MonkeyPatch, progress: Progress, screen: io.StringIO
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert why_plain() == "numba is not installed"
    pixels = images(3, 1, 8, 8)
    assert torch.equal(scattering(pixels), plain_scattering(pixels))
    _say_why_plain(saved(PARAMETERS), "cpu", progress)
    _say_why_plain(saved(MIX), "cuda", progress)
    assert screen.getvalue() == ""
    _say_why_plain(saved(MIX), "cpu", progress)
    assert "plain torch, several times slower: numba is not installed" in screen.getvalue()


def test_loops_that_differ_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOLERANCE", 1e-12)
    assert "1e-12 is allowed" in why_plain()
    pixels = images(3, 1, 8, 8)
    assert torch.equal(scattering(pixels), plain_scattering(pixels))


def test_loops_that_cannot_be_compiled_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError

    monkeypatch.setattr(module, "_split_filters", broken)
    assert why_plain() == "its loops could not be compiled (OSError)"
