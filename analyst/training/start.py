"""What a new run may start from: the weights of another run, or a decoder that was released."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from analyst.errors import RecipeError
from analyst.generators.decoded import DecodedGenerator
from analyst.recipes import Recipe, recipe_from_dict
from analyst.training.checkpoint import image_shape, must_fit_recipe, read_run
from analyst.training.state import TrainingState, load_generator


def start_from(
    state: TrainingState, recipe: Recipe, dataset: dict[str, Any], directory: Path
) -> None:
    """Take the averaged generator weights of another run, as `analyst sample` shows them.

    Args:
        state: A new state, in place.
        recipe: Its recipe.
        dataset: Its data set's facts.
        directory: The other run's output directory.

    Raises:
        CheckpointError: If there is no whole checkpoint.
        RecipeError: If the generators differ.
    """
    tensors, manifest = read_run(directory)
    other = recipe_from_dict(manifest.recipe, origin=f"the recipe in {directory}")
    if other.generator != recipe.generator or image_shape(manifest.dataset) != image_shape(dataset):
        message = f"the generator in {directory} is not the one of this recipe"
        raise RecipeError(message, "Use the same [generator] and a data set of the same shape.")
    with must_fit_recipe(directory):
        load_generator(state.model, tensors, part="ema")
    state.ema.load({name: p.detach() for name, p in state.model.named_parameters()})


def take_decoder(state: TrainingState, decoder: Mapping[str, Tensor] | None) -> None:
    """Give a generator of codes the decoder that was released.

    Args:
        state: A new state, in place; other generators are left as they are.
        decoder: Released weights by name; none without a download.

    Raises:
        RecipeError: If there is none, or another one than the recipe says.
    """
    if not isinstance(state.model, DecodedGenerator):
        return
    if decoder is None:
        message = "this generator needs the decoder that is released when its run opens"
        remedy = "Use 'analyst embedding download', then 'analyst embedding train'."
        raise RecipeError(message, remedy)
    try:
        state.model.take_decoder(decoder)
    except ValueError as error:
        message = f"the download does not fit this generator: {error}"
        raise RecipeError(message, "Use the recipe that the run was opened with.") from None
    state.ema.load({name: p.detach() for name, p in state.model.named_parameters()})
