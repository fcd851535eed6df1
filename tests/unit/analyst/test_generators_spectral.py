from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from analyst.generators.configs import ResidualConfig
from analyst.generators.generator import ImageShape, build_generator
from analyst.generators.normalisation import ClassBatchNorm2d, SpectralNorm
from analyst.generators.residual import ResidualGenerator
from analyst.recipes import Recipe
from analyst.training.state import load_state, new_state, state_tensors


def _weight(*singular_values: float) -> torch.Tensor:
    """Return a 4-d weight, 6 x (2 * 3 * 3), with these singular values."""
    randomness = torch.Generator().manual_seed(3)
    left, _ = torch.linalg.qr(torch.randn(6, 6, generator=randomness))
    right, _ = torch.linalg.qr(torch.randn(18, 18, generator=randomness))
    values = torch.tensor([*singular_values, *[0.1] * (6 - len(singular_values))])
    weight: torch.Tensor = (left * values @ right[:6]).reshape(6, 2, 3, 3)
    return weight


def test_the_largest_singular_value_becomes_one() -> None:
    normalised = SpectralNorm()(_weight(7.0, 2.0, 1.0))
    values = torch.linalg.svdvals(normalised.flatten(1))
    assert values[:3].tolist() == pytest.approx([1.0, 2 / 7, 1 / 7], abs=1e-4)


def test_the_gradient_is_that_of_the_norm() -> None:
    weight = _weight(7.0, 2.0, 1.0).requires_grad_()
    probe = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    (SpectralNorm()(weight) * probe).sum().backward()
    exact = weight.detach().clone().requires_grad_()
    (exact / torch.linalg.matrix_norm(exact.flatten(1), 2) * probe).sum().backward()
    assert weight.grad is not None
    assert exact.grad is not None
    assert torch.allclose(weight.grad, exact.grad, atol=1e-4)


def _residual() -> ResidualGenerator:
    shape = ImageShape(channels=1, height=8, width=8, num_classes=3)
    model = build_generator(ResidualConfig(kind="residual", width=8), shape, torch.Generator())
    assert isinstance(model, ResidualGenerator)
    return model


def test_every_weight_of_the_residual_generator_is_normalised() -> None:
    layers = [one for one in _residual().modules() if isinstance(one, nn.Linear | nn.Conv2d)]
    assert len(layers) == 5
    for layer in layers:
        assert 0.95 < torch.linalg.matrix_norm(layer.weight.flatten(1), 2) < 1.25


def test_sampling_leaves_the_model_as_it_was() -> None:
    model = _residual()
    latents, labels = torch.ones(6, 32).cumsum(0), torch.arange(6) % 3
    first = model(latents, labels)
    for _ in range(3):
        model(torch.randn(4, 32, generator=torch.Generator()), labels[:4])
    assert torch.equal(model(latents, labels), first)
    assert not list(model.buffers())


def test_labels_choose_gain_and_bias() -> None:
    norm = ClassBatchNorm2d(2, 3)
    with torch.no_grad():
        norm.gain[1], norm.bias[2] = 3.0, 5.0
    features = torch.randn(6, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    plain = nn.functional.batch_norm(features, None, None, training=True)
    expected = plain.clone()
    expected[labels == 1] *= 3
    expected[labels == 2] += 5
    assert torch.allclose(norm(features, labels), expected, atol=1e-6)


def test_a_checkpoint_restores_it_bit_for_bit(small_recipe: Callable[..., Recipe]) -> None:
    config = ResidualConfig(kind="residual", width=8)
    recipe = replace(small_recipe(), generator=config)
    shape = ImageShape(channels=1, height=8, width=8, num_classes=10)
    trained, fresh = (new_state(recipe, shape) for _ in range(2))
    latents, labels = torch.ones(10, 32).cumsum(0), torch.arange(10)
    for _ in range(2):
        trained.optimizer.zero_grad()
        torch.autograd.backward([trained.model(latents, labels).square().sum()])
        trained.optimizer.step()
        trained.ema.update(trained.model)
    assert not torch.equal(fresh.model(latents, labels), trained.model(latents, labels))
    load_state(fresh, state_tensors(trained))
    assert torch.equal(fresh.model(latents, labels), trained.model(latents, labels))
