"""Sample from a checkpoint of a run: post-processing, so it costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from analyst.evaluation.image_file import LabelledImages
from analyst.evolution.session import sample_evolved
from analyst.generators.generator import build_generator
from analyst.generators.sampling import generate
from analyst.recipes import recipe_from_dict
from analyst.recipes.mechanisms import VOTES
from analyst.training.checkpoint import image_shape, must_fit_recipe, read_run
from analyst.training.grid import to_pixels
from analyst.training.state import load_generator

Weights = Literal["ema", "generator"]


def sample_run(
    directory: Path,
    count: int,
    *,
    seed: int,
    weights: Weights,
    device: str = "cpu",
    step: int | None = None,
) -> LabelledImages:
    """Generate images with balanced labels.

    Args:
        directory: A run's output directory.
        count: Number of images.
        seed: Of labels and latents.
        weights: "ema" for the averages, "generator" for the last weights.
        device: Torch device of the generator.
        step: Updates of a kept checkpoint; by default the newest.

    Returns:
        Bytes [N, C, H, W], labels [N], the names of the data set's classes, and the run.
    """
    tensors, manifest = read_run(directory, num_updates=step)
    if manifest.recipe.get("mechanism", {}).get("kind") == VOTES:
        return sample_evolved(directory, count, seed=seed, step=step)
    recipe = recipe_from_dict(manifest.recipe, origin=f"the recipe in {directory}")
    shape = image_shape(manifest.dataset)
    randomness = torch.Generator().manual_seed(seed)
    model = build_generator(recipe.generator, shape, randomness)
    with must_fit_recipe(directory):
        load_generator(model, tensors, part=weights)
    images, labels = generate(model.to(device), count, randomness)
    classes = tuple(map(str, manifest.dataset["classes"]))
    return LabelledImages(
        to_pixels(images), labels.numpy().astype(np.int64), classes=classes, run_id=manifest.run_id
    )
