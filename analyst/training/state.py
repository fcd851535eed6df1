"""Everything that a training run changes, as one object that becomes named tensors and back.

What is restored is equal bit for bit on the same kind of device: weights, averages, Adam's moments
and the state of the run's own randomness. The global random state is not part of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from analyst.generators.generator import ConditionalGenerator, ImageShape, build_generator
from analyst.recipes import OptimizerConfig, Recipe


@final
class Ema:
    """Averages that follow a module's parameters; decay 0 keeps the last weights."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        """Start the averages at the current weights.

        Args:
            module: Whose parameters to follow.
            decay: Weight of the past, in [0, 1).
        """
        self.decay = decay
        self._weights = {name: p.detach().clone() for name, p in module.named_parameters()}
        self._owed: nn.Module | None = None

    @property
    def weights(self) -> dict[str, Tensor]:
        """The averages by name, up to date."""
        self.settle()
        return self._weights

    def update(self, module: nn.Module) -> None:
        """Move every average towards the current weight by `1 - decay`."""
        self.owe(module)
        self.settle()

    def owe(self, module: nn.Module) -> None:
        """Update later: when there is time, or when somebody reads the averages.

        Args:
            module: Nothing may change it before `settle`.
        """
        self.settle()
        self._owed = module

    @torch.no_grad()
    def settle(self) -> None:
        """Make the update that is owed."""
        module, self._owed = self._owed, None
        if module is not None:
            for name, parameter in module.named_parameters():
                self._weights[name].lerp_(parameter, 1 - self.decay)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Replace the averages, keeping device and type."""
        for name, average in self.weights.items():
            average.copy_(weights[name])

    @contextmanager
    def applied_to(self, module: nn.Module) -> Iterator[None]:
        """Lend the averages to `module` while the block runs, then put its own weights back."""
        own = {name: p.detach().clone() for name, p in module.named_parameters()}
        _copy(self.weights, module)
        try:
            yield
        finally:
            _copy(own, module)


@torch.no_grad()
def _copy(weights: dict[str, Tensor], module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        parameter.copy_(weights[name])


_SENT = ("latents_NZ", "labels_N", "images_NCHW")
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, eq=False)
class SentBatch:
    """A batch that was sent before the answer to the one before it had come."""

    latents_NZ: Tensor
    labels_N: Tensor
    images_NCHW: Tensor  # as they were sent: made with weights that are older by now


@dataclass(slots=True)
class TrainingState:
    """A generator, its averages, its optimizer, its randomness, and how often it was updated."""

    model: ConditionalGenerator
    ema: Ema
    optimizer: torch.optim.Adam
    randomness: torch.Generator
    num_updates: int = 0
    sent: deque[SentBatch] = field(default_factory=deque)  # that nobody has answered yet


def new_state(recipe: Recipe, shape: ImageShape) -> TrainingState:
    """Build the state that a recipe starts from.

    Args:
        recipe: ConditionalGenerator, optimizer, seed and device.
        shape: Public facts of the data set.

    Returns:
        A state that depends on the recipe and the shape alone.

    Raises:
        ValueError: If the generator cannot produce `shape`.
    """
    randomness = torch.Generator().manual_seed(recipe.training.seed)
    model = build_generator(recipe.generator, shape, randomness).to(recipe.session.device)
    ema = Ema(model, recipe.training.ema_decay)
    return TrainingState(model, ema, adam(model, recipe.optimizer), randomness)


def adam(model: nn.Module, config: OptimizerConfig) -> torch.optim.Adam:
    """Return the optimizer that a recipe asks for; on a processor one pass over each weight.

    That pass takes weights and moments as they lie in memory, so all of them have to lie alike.
    """
    on_processor = all(
        weight.device.type == "cpu" and weight.is_contiguous() for weight in model.parameters()
    )
    return torch.optim.Adam(
        model.parameters(),
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=on_processor or None,
    )


def learning_rate(config: OptimizerConfig, step: int, num_steps: int) -> float:
    """Return the rate of a step: constant, or a half cosine over the declared steps.

    Args:
        config: Rate and kind of decay.
        step: Step of the ledger, from 1.
        num_steps: Declared steps.

    Returns:
        A rate in (0, `config.lr`].
    """
    match config.decay:
        case "constant":
            return config.lr
        case "cosine":
            return config.lr * half_cosine((step - 1) / num_steps)


def half_cosine(share: float) -> float:
    """Return a factor that falls from 1 to 0 while `share` grows from 0 to 1."""
    return 0.5 * (1 + math.cos(math.pi * share))


def state_tensors(state: TrainingState) -> dict[str, Tensor]:
    """Return the state as named CPU tensors, copied."""
    tensors = {"randomness": state.randomness.get_state()}
    for name, parameter in state.model.named_parameters():
        tensors[f"generator.{name}"] = parameter
        tensors[f"ema.{name}"] = state.ema.weights[name]
        for moment, value in state.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{moment}.{name}"] = value
    for place, batch in enumerate(state.sent):
        for part in _SENT:
            tensors[f"sent.{place}.{part}"] = getattr(batch, part)
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }


@torch.no_grad()
def load_state(state: TrainingState, tensors: dict[str, Tensor]) -> None:
    """Restore what `state_tensors` returned into a state of the same recipe.

    Raises:
        ValueError: If a tensor is missing or has another shape.
    """
    names = [name for name, _ in state.model.named_parameters()]
    load_generator(state.model, tensors, part="generator")
    state.ema.load({name: _take(tensors, f"ema.{name}") for name in names})
    state.randomness.set_state(_take(tensors, "randomness"))
    state.sent.clear()
    while f"sent.{len(state.sent)}.{_SENT[0]}" in tensors:
        place = len(state.sent)
        state.sent.append(SentBatch(*(_take(tensors, f"sent.{place}.{part}") for part in _SENT)))
    saved: dict[str, Any] = state.optimizer.state_dict()
    if any(name.startswith("optimizer.") for name in tensors):
        saved["state"] = {
            index: {m: _moment(tensors, f"optimizer.{m}.{name}", parameter) for m in MOMENTS}
            for index, (name, parameter) in enumerate(state.model.named_parameters())
            if parameter.requires_grad
        }
        state.optimizer.load_state_dict(saved)


@torch.no_grad()
def load_generator(model: ConditionalGenerator, tensors: dict[str, Tensor], *, part: str) -> None:
    """Restore only a generator's weights.

    Args:
        model: The generator, in place.
        tensors: What `state_tensors` returned.
        part: "generator" for the last weights, "ema" for the averages.

    Raises:
        ValueError: If a tensor is missing or has another shape.
    """
    for name, parameter in model.named_parameters():
        value = _take(tensors, f"{part}.{name}")
        if value.shape != parameter.shape:
            msg = f"'{name}' has shape {tuple(value.shape)}, not {tuple(parameter.shape)}"
            raise ValueError(msg)
        parameter.copy_(value)


def _moment(tensors: dict[str, Tensor], name: str, parameter: Tensor) -> Tensor:
    """Return a moment of Adam's: a number of steps, or one value for each weight.

    Raises:
        ValueError: If it is missing or has another shape.
    """
    value = _take(tensors, name)
    if value.shape not in {parameter.shape, torch.Size([])}:
        msg = f"'{name}' has shape {tuple(value.shape)}, not {tuple(parameter.shape)}"
        raise ValueError(msg)
    return value


def _take(tensors: dict[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        msg = f"'{name}' is missing"
        raise ValueError(msg)
    return tensors[name]
