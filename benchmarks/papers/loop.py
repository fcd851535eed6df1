"""Cells with a training loop of their own: any optimizer, and gradients from one of three places.

served      over a real curator's gRPC, charged by its ledger
bare        the same loss in process, without clip and noise: never private, never served
parameters  the generator's own gradient in process, clipped as a whole and noised as the images'
            would be: it needs the generator beside the records, so nothing like it is served

A loop that is killed starts again, with a new curator.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

import analyst
from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from analyst.generators.generator import ImageShape, draw_latents
from analyst.generators.sampling import generate
from analyst.recipes import Recipe, load_recipe
from analyst.training.grid import to_pixels
from analyst.training.state import TrainingState, learning_rate, new_state
from benchmarks.papers.barrier import (
    calibrated_noise,
    facts_for,
    prepare,
    serving,
    spent_epsilon,
)
from benchmarks.papers.data import DataSet, read_data, scaled, visible
from benchmarks.papers.losses import exact_gradient
from benchmarks.papers.measure import kept, measure, write_grid
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work
from curator.folder import CuratorFolder
from curator.privacy.facts import DatasetFacts

Ask = Callable[[Tensor, Tensor], Tensor]
_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
    "rmsprop": torch.optim.RMSprop,
}


def make(work: Work) -> Measured:
    """Train, sample and measure."""
    changes = {**work.settings.get("set", {}), "training.seed": work.seed}
    recipe = load_recipe(work.settings["recipe"], changes)
    data = read_data(recipe.training.dataset, work.data, size=work.settings.get("size"))
    facts = facts_for(work, recipe, data)
    noise = None
    if work.settings["gradients"] != "bare":
        noise = recipe.mechanism.noise_multiplier
        if work.settings.get("calibrated", False):
            noise = calibrated_noise(recipe, facts)
        changes["mechanism.noise_multiplier"] = noise
        recipe = load_recipe(work.settings["recipe"], changes)
    done = kept(work.folder / "trained.json", lambda: _trained(work, recipe, data, facts))
    synthetic = load_images(work.folder / "synthetic.npz")
    write_grid(work.folder / "grid.png", synthetic)
    return Measured(
        values=measure(work, synthetic, visible(data, data.test)),
        seconds=done["seconds"],
        epsilon=done["epsilon"],
        true_epsilon=_in_words(work),
        details={"data": recipe.training.dataset, "noise_multiplier": noise},
    )


def _in_words(work: Work) -> str:
    """Return what holds of cells that nothing charged."""
    limit = f"{work.settings['epsilon']:g} by the same rule, in process and never served"
    return {"bare": "infinite", "parameters": limit}.get(work.settings["gradients"], "")


def _trained(work: Work, recipe: Recipe, data: DataSet, facts: DatasetFacts) -> dict[str, Any]:
    """Train from the start and write the images; return seconds and epsilon."""
    started = time.monotonic()
    shape = ImageShape(
        channels=facts.channels,
        height=facts.height,
        width=facts.width,
        num_classes=len(facts.classes),
    )
    state = new_state(recipe, shape)
    state.optimizer = _optimizer(work, state, recipe)  # type: ignore[assignment]
    with _source(work, recipe, data, facts) as (ask, folder):
        _loop(work, state, recipe, ask)
    epsilon = None if folder is None else round(spent_epsilon(folder, facts.name), 6)
    randomness = torch.Generator().manual_seed(work.seed)
    with state.ema.applied_to(state.model), torch.no_grad():
        images, labels = generate(state.model, work.settings["count"], randomness)
    levels = LabelledImages(to_pixels(images), labels.numpy(), classes=facts.classes)
    save_images(work.folder / "synthetic.npz", levels, force=True)
    return {"seconds": round(time.monotonic() - started, 1), "epsilon": epsilon}


def _loop(work: Work, state: TrainingState, recipe: Recipe, ask: Ask) -> None:
    steps = int(recipe.training.steps)
    noise = torch.Generator().manual_seed(work.seed + 11)
    for step in range(1, steps + 1):
        work.left()
        labels = recipe.mechanism.draw_labels(state.model.num_classes, state.randomness)
        latents = draw_latents(
            state.model.latent, len(labels), state.model.latent_dim, state.randomness
        )
        images = state.model(latents, labels)
        gradient = ask(images.detach(), labels)
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(recipe.optimizer, step, steps)
        state.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([images], [gradient.to(images)])
        if work.settings["gradients"] == "parameters":
            clip_and_noise(state.model, recipe.mechanism, noise)
        state.optimizer.step()
        state.ema.update(state.model)


@torch.no_grad()
def clip_and_noise(model: torch.nn.Module, mechanism: Any, randomness: torch.Generator) -> None:
    """Clip the whole gradient of a module to C and add noise of 2 C z to each of its entries.

    Args:
        model: With gradients.
        mechanism: Its `clip_norm` and `noise_multiplier`.
        randomness: Of this comparison; nothing that is served draws noise so.
    """
    slopes = [one.grad for one in model.parameters() if one.grad is not None]
    whole = torch.stack([one.square().sum() for one in slopes]).sum().sqrt()
    factor = mechanism.clip_norm / whole.clamp_min(mechanism.clip_norm)
    for one in slopes:
        drawn = torch.randn(one.shape, generator=randomness)
        one.mul_(factor).add_(drawn, alpha=2 * mechanism.clip_norm * mechanism.noise_multiplier)


def _optimizer(work: Work, state: TrainingState, recipe: Recipe) -> torch.optim.Optimizer:
    name = work.settings.get("optimizer", "adam")
    if name == "adam":
        return state.optimizer
    decay = {"weight_decay": recipe.optimizer.weight_decay}
    return _OPTIMIZERS[name](state.model.parameters(), lr=recipe.optimizer.lr, **decay)


@contextmanager
def _source(
    work: Work, recipe: Recipe, data: DataSet, facts: DatasetFacts
) -> Iterator[tuple[Ask, CuratorFolder | None]]:
    """Give what answers a step.

    Yields:
        It, and the curator's folder where there is one.
    """
    if work.settings["gradients"] != "served":
        pixels = scaled(data, data.private).flatten(1)
        labels = torch.from_numpy(data.private.labels)
        exact = exact_gradient(recipe, pixels, labels, facts.space)
        yield lambda images, of: exact(images.flatten(1), of).reshape(images.shape), None
        return
    shutil.rmtree(work.folder, ignore_errors=True)
    folder = prepare(work, facts, data.private)
    mechanism = recipe.mechanism
    steps = int(recipe.training.steps)
    with (
        serving(work, folder) as (served,),
        analyst.connect(served.address, credentials=served.credentials) as barrier,
    ):
        parameters = mechanism.parameters(barrier.describe(facts.name))
        name = mechanism.wire_name
        with barrier.open_run(facts.name, name, parameters, num_steps=steps) as run:
            yield run.gradient, folder
