"""Everything that an adaptation changes, as one object that becomes named tensors and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from analyst.adaptation.networks import (
    DomainClassifier,
    SourceMap,
    build_classifier,
    build_source_map,
)
from analyst.adaptation.recipe import AdaptationRecipe, MoveSourceConfig
from analyst.generators.generator import ImageShape
from analyst.training.state import MOMENTS, Ema, adam, half_cosine

_SOME = 2000  # images that fix the scale of a lens


@dataclass(slots=True)
class AdaptationState:
    """A classifier, what the curator's gradient moves if it is not that, and their optimizers."""

    model: DomainClassifier
    ema: Ema
    optimizer: torch.optim.Adam
    randomness: torch.Generator
    num_updates: int = 0
    source_map: SourceMap | None = None
    map_optimizer: torch.optim.Adam | None = None

    @property
    def parts(self) -> dict[str, tuple[nn.Module, torch.optim.Adam]]:
        """Everything that is trained, by its name in a checkpoint."""
        made: dict[str, tuple[nn.Module, torch.optim.Adam]] = {
            "model": (self.model, self.optimizer)
        }
        if self.source_map is not None and self.map_optimizer is not None:
            made["map"] = (self.source_map, self.map_optimizer)
        return made


def new_adaptation(
    recipe: AdaptationRecipe, shape: ImageShape, source_NCHW: Tensor
) -> AdaptationState:
    """Return the state that a recipe starts from.

    Args:
        recipe: Architecture, optimizer and seeds.
        shape: Public facts of the target.
        source_NCHW: Images of the source, which fix the scale of a lens.
    """
    given = recipe.mechanism
    model, randomness = new_classifier(recipe, shape)
    optimizer = adam(model, recipe.optimizer)
    state = AdaptationState(model, Ema(model, recipe.training.ema_decay), optimizer, randomness)
    if isinstance(recipe.move, MoveSourceConfig):
        state.source_map = build_source_map(
            given.architecture,
            shape,
            source_NCHW[:_SOME],
            mechanism=given,
            seed=recipe.move.lens_seed,
        )
        state.map_optimizer = torch.optim.Adam([state.source_map.affine], lr=recipe.move.lr)
    return state


def new_classifier(
    recipe: AdaptationRecipe, shape: ImageShape
) -> tuple[DomainClassifier, torch.Generator]:
    """Return the classifier that a recipe starts from, and the randomness that goes on from it."""
    randomness = torch.Generator().manual_seed(recipe.training.seed)
    model = build_classifier(
        recipe.mechanism.architecture,
        shape,
        randomness,
        num_features=recipe.mechanism.num_features,
        clip_norm=recipe.mechanism.clip_norm,
    )
    return model, randomness


def rate(recipe: AdaptationRecipe, num_updates: int) -> float:
    """Return the learning rate after so many updates: constant, or a half cosine over all."""
    config = recipe.optimizer
    if config.decay == "constant":
        return config.lr
    return config.lr * half_cosine(num_updates / recipe.num_updates)


def adaptation_tensors(state: AdaptationState) -> dict[str, Tensor]:
    """Return the state as named tensors, copied."""
    tensors = {"randomness": state.randomness.get_state()}
    tensors |= {f"ema.{name}": value for name, value in state.ema.weights.items()}
    for part, (module, optimizer) in state.parts.items():
        for name, parameter in module.named_parameters():
            tensors[f"{part}.{name}"] = parameter
            for moment, value in optimizer.state.get(parameter, {}).items():
                tensors[f"{part}-{moment}.{name}"] = value
    return {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}


def load_adaptation_tensors(state: AdaptationState, tensors: dict[str, Tensor]) -> None:
    """Restore what `adaptation_tensors` returned into a state of the same recipe.

    Raises:
        KeyError: If one is missing.
        RuntimeError: If one has another shape.
    """
    state.randomness.set_state(tensors["randomness"])
    state.ema.load({name: tensors[f"ema.{name}"] for name in state.ema.weights})
    for part, (module, optimizer) in state.parts.items():
        load_module(module, tensors, part=part)
        trained = [name for name, one in module.named_parameters() if one.requires_grad]
        if all(f"{part}-step.{name}" in tensors for name in trained):
            saved = optimizer.state_dict()
            saved["state"] = {
                index: {moment: tensors[f"{part}-{moment}.{name}"] for moment in MOMENTS}
                for index, name in enumerate(trained)
            }
            optimizer.load_state_dict(saved)


def load_module(module: nn.Module, tensors: dict[str, Tensor], *, part: str) -> None:
    """Restore only one module's weights.

    Raises:
        KeyError: If one is missing.
        RuntimeError: If one has another shape.
    """
    module.load_state_dict(
        {name: tensors[f"{part}.{name}"] for name, _ in module.named_parameters()}
    )
