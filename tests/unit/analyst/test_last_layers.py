"""The last layers on a processor: what torch's own three layers give, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from analyst.generators.last_layers import rectified_convolution


def drawn(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def layers(num_maps: int, channels: int) -> tuple[nn.BatchNorm2d, nn.Conv2d]:
    norm = nn.BatchNorm2d(num_maps, track_running_stats=False).double()
    convolution = nn.Conv2d(num_maps, channels, 3, padding=1).double()
    for seed, weight in enumerate((*norm.parameters(), *convolution.parameters())):
        weight.data = drawn(*weight.shape, seed=seed)
    return norm, convolution


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("shape", "channels"), [((5, 4, 7, 6), 1), ((3, 8, 5, 9), 3), ((2, 1, 1, 3), 2)]
)
def test_the_numbers_are_those_of_the_layers(
    shape: tuple[int, ...], channels: int, memory_format: torch.memory_format
) -> None:
    norm, convolution = layers(shape[1], channels)
    maps = drawn(*shape, seed=9).contiguous(memory_format=memory_format).requires_grad_()
    given = maps.detach().clone()
    got = rectified_convolution(maps, norm, convolution)
    wanted = convolution(relu(norm(maps)))
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
    slopes = drawn(*wanted.shape, seed=10)
    kept = slopes.clone()
    learned = [maps, *norm.parameters(), *convolution.parameters()]
    for one, other in zip(
        torch.autograd.grad(got, learned, slopes),
        torch.autograd.grad(wanted, learned, slopes),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-11)
    assert torch.equal(maps, given)
    assert torch.equal(slopes, kept)
