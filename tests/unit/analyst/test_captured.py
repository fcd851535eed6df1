"""Captured updates are the eager ones, on a card or with graphs that are played back by a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from analyst.errors import RecipeError
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe
from analyst.training import captured, updates
from analyst.training.captured import CapturedUpdates
from analyst.training.state import TrainingState, load_state, new_state, state_tensors
from analyst.training.updates import EagerUpdates, Updates, updates_of
from tests.fakes import cuda

SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
    ),
]
Make = Callable[..., Recipe]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == "cpu":
        cuda.install(monkeypatch, captured)
    return name


def steps(state: TrainingState, made: Updates, first: int, last: int) -> list[torch.Tensor]:
    seen = []
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        latents = torch.rand((24, state.model.latent_dim), generator=generator)
        labels = torch.randint(0, 10, (24,), generator=generator)
        images = made.images(latents, labels).to("cpu").clone()
        seen.append(images)
        made.apply(torch.sin(images * 9) / 24, 1e-2 / step)
    return seen


def state_on(recipe: Recipe, device: str) -> TrainingState:
    state = new_state(recipe, SHAPE)
    state.model.to(device)
    state.ema.weights.update({name: one.to(device) for name, one in state.ema.weights.items()})
    return state


def test_the_weights_are_those_of_eager_updates(small_recipe: Make, device: str) -> None:
    recipe = small_recipe(training__ema_decay=0.9, optimizer__weight_decay=1e-3)
    eager, replayed = state_on(recipe, device), state_on(recipe, device)
    expected = steps(eager, EagerUpdates(eager, device), 1, 7)
    got = steps(replayed, CapturedUpdates(replayed, torch.device(device)), 1, 7)
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, atol=2e-4)
    before = state_tensors(eager)
    for name, tensor in state_tensors(replayed).items():
        assert torch.allclose(tensor, before[name], rtol=1e-3, atol=2e-4), name


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_run_goes_on_with_captured_updates(
    small_recipe: Make, device: str, memory_format: torch.memory_format
) -> None:
    recipe = small_recipe()
    eager, resumed = state_on(recipe, device), state_on(recipe, device)
    steps(eager, EagerUpdates(eager, device), 1, 4)
    load_state(resumed, state_tensors(eager))
    steps(eager, EagerUpdates(eager, device), 4, 7)
    steps(resumed, CapturedUpdates(resumed, torch.device(device), memory_format), 4, 7)
    before = state_tensors(eager)
    for name, tensor in state_tensors(resumed).items():
        assert torch.allclose(tensor, before[name], rtol=1e-3, atol=2e-4), name


def test_capturing_changes_nothing(small_recipe: Make, device: str) -> None:
    recipe = small_recipe(optimizer__weight_decay=1.0)
    state = state_on(recipe, device)
    before = state_tensors(state)
    made = CapturedUpdates(state, torch.device(device))
    made.images(torch.zeros((24, state.model.latent_dim)), torch.zeros(24, dtype=torch.int64))
    after = state_tensors(state)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(float(after[f"optimizer.step.{name}"]) == 0 for name in state.ema.weights)


def test_another_number_of_rows_is_captured_too(small_recipe: Make, device: str) -> None:
    state = state_on(small_recipe(), device)
    made = CapturedUpdates(state, torch.device(device))
    for rows in (24, 12, 24):
        latents = torch.zeros((rows, state.model.latent_dim))
        images = made.images(latents, torch.zeros(rows, dtype=torch.int64))
        assert images.shape == (rows, 1, 8, 8)
        made.apply(torch.zeros_like(images), 1e-3)


def test_images_that_stay_are_those_that_are_sent(small_recipe: Make, device: str) -> None:
    recipe = small_recipe()
    sending, keeping = state_on(recipe, device), state_on(recipe, device)
    expected = steps(sending, CapturedUpdates(sending, torch.device(device)), 1, 5)
    made = CapturedUpdates(keeping, torch.device(device), are_images_sent=False)
    got = steps(keeping, made, 1, 5)
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, atol=0 if device == "cpu" else 2e-4)
    before = state_tensors(sending)
    for name, tensor in state_tensors(keeping).items():
        assert torch.allclose(tensor, before[name], atol=0 if device == "cpu" else 2e-4), name
    latents = torch.zeros((24, keeping.model.latent_dim))
    images = made.images(latents, torch.zeros(24, dtype=torch.int64))
    assert images.device == next(keeping.model.parameters()).device
    assert not images.requires_grad


@pytest.mark.parametrize("kind", ["eager", "captured"])
def test_a_gradient_without_images_is_refused(small_recipe: Make, device: str, kind: str) -> None:
    state = state_on(small_recipe(), device)
    made: Updates = EagerUpdates(state, device)
    if kind == "captured":
        made = CapturedUpdates(state, torch.device(device))
    with pytest.raises(ValueError, match="needs images"):
        made.apply(torch.zeros(24, 1, 8, 8), 1e-3)


def test_a_generator_that_cannot_be_captured_is_told(
    small_recipe: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.install(monkeypatch, captured)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", broken)
    state = state_on(small_recipe(), "cpu")
    made = CapturedUpdates(state, torch.device("cpu"))
    with pytest.raises(RecipeError, match="cannot be captured as a CUDA graph"):
        made.images(torch.zeros((24, state.model.latent_dim)), torch.zeros(24, dtype=torch.int64))


def test_the_recipe_chooses(small_recipe: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda.install(monkeypatch, captured)
    recipe = small_recipe()
    state = new_state(recipe, SHAPE)
    assert isinstance(updates_of(state, recipe), EagerUpdates)
    chosen: list[Any] = []
    monkeypatch.setattr(
        captured, "CapturedUpdates", lambda *given, **options: chosen.append((given, options))
    )
    on_card = small_recipe(session__device="cuda", session__cuda_graph=True)
    for sent in (True, False):
        updates.updates_of(state, on_card, are_images_sent=sent)
        assert chosen.pop() == ((state, torch.device("cuda")), {"are_images_sent": sent})


def test_graphs_need_a_card(small_recipe: Make) -> None:
    with pytest.raises(RecipeError, match=r"needs session\.device"):
        small_recipe(session__cuda_graph=True)
