"""The autoencoder: slopes of each example alone against torch.func, and its public start."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import leaky_relu, linear, softsign

from curator.divergences.autoencoder import (
    AutoencoderShape,
    autoencoder_parameters,
    encode,
    example_slopes,
    initial_autoencoder,
    on_grid,
)
from curator.divergences.critics import Parameters

SHAPE = AutoencoderShape(dimension=6, hidden_width=5, code_width=3)


def vector(seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    start = initial_autoencoder(SHAPE, 3)
    return start + 0.1 * torch.randn(start.shape, generator=generator)


def images(num_rows: int = 7) -> Tensor:
    return torch.rand(num_rows, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1


def squared_error(parameters: Parameters, image: Tensor) -> Tensor:
    """Return the loss of one image, written once more."""
    value = image
    for name, act in (
        ("encoder.hidden", lambda v: leaky_relu(v, 0.2)),
        ("encoder.code", softsign),
        ("decoder.hidden", lambda v: leaky_relu(v, 0.2)),
        ("decoder.pixels", torch.tanh),
    ):
        value = act(linear(value, parameters[f"{name}.weight"], parameters[f"{name}.bias"]))
    return (value - image).square().sum()


def test_slopes_are_those_of_torch_func() -> None:
    found = example_slopes(SHAPE, vector(), images())
    parameters = autoencoder_parameters(SHAPE, vector())
    wanted = vmap(grad(squared_error), in_dims=(None, 0))(parameters, images())
    assert [part.shape[1] for part in found] == [math.prod(s) for s in SHAPE.sizes.values()]
    for part, want in zip(found, wanted.values(), strict=True):
        torch.testing.assert_close(part, want.flatten(1), rtol=1e-4, atol=1e-6)


def test_a_row_of_slopes_does_not_know_its_companions() -> None:
    whole = torch.cat(example_slopes(SHAPE, vector(), images()), dim=1)
    changed = images()
    changed[3:] = 0.5
    torch.testing.assert_close(
        torch.cat(example_slopes(SHAPE, vector(), changed), dim=1)[:3], whole[:3]
    )


def test_the_start_is_public_pinned_and_of_the_right_spread() -> None:
    start = initial_autoencoder(SHAPE, 3)
    assert torch.equal(start, initial_autoencoder(SHAPE, 3))
    assert not torch.equal(start, initial_autoencoder(SHAPE, 4))
    digest = hashlib.shake_256(b"weir critics v1|3|autoencoder").digest(8)
    uniform = (int.from_bytes(digest, "little") >> 11) * 2.0**-53
    assert start[0].item() == pytest.approx((2 * uniform - 1) * math.sqrt(3 / 6), rel=1e-6)
    parameters = autoencoder_parameters(SHAPE, start)
    assert sum(value.numel() for value in parameters.values()) == SHAPE.num_parameters == 109
    for name, value in parameters.items():
        if name.endswith("bias"):
            assert value.count_nonzero() == 0
        else:
            assert float(value.abs().max()) <= math.sqrt(3 / value.shape[1])


def test_codes_are_inside_the_cube_and_differentiable() -> None:
    moving = (1e3 * images()).requires_grad_()
    codes = encode(autoencoder_parameters(SHAPE, vector()), moving)
    assert codes.shape == (7, 3)
    assert float(codes.detach().abs().max()) < 1
    (slope,) = torch.autograd.grad(codes.sum(), moving)
    assert bool((slope.abs().sum(dim=1) > 0).all())


def test_weights_on_their_grid_are_multiples_and_bounded() -> None:
    given = torch.tensor([0.3, -1e9, 1e9, math.nan, math.inf, -math.inf, 2.0**-13])
    points = on_grid(given) * 4096
    assert points.tolist() == [1229.0, -65535.0, 65535.0, 0.0, 65535.0, -65535.0, 0.0]
    assert torch.equal(on_grid(on_grid(vector())), on_grid(vector()))
