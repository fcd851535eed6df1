"""How fast embeddings are released and trained on, against how they were before and kymatio.

    pip install kymatio
    python -m benchmarks.embedding

The sizes are those of `embedding-mnist-10-cpu`: 100 images of 28 x 28 a training step, batches of
512 records a release. Before means torch alone, layer by layer and by tiles, Gaussian frequencies,
and rows of a batch that are looked at all at once; Gaussian means these frequencies in the place of
the recipe's structured orthogonal ones. Without kymatio its part is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from analyst.embedding.feature_maps import fourier_parts, joined
from analyst.embedding.file import SavedEmbedding
from analyst.embedding.offline import OfflineRun, class_means, mmd_gradient
from analyst.embedding.scattering import plain_scattering, scattering, why_plain
from analyst.facts import ImageFacts
from analyst.generators import conv_embedding
from analyst.generators.generator import ImageShape, draw_latents
from analyst.recipes import Recipe, load_recipe
from analyst.training.state import new_state
from analyst.training.updates import EagerUpdates
from analyst.tune_process import tune_process
from benchmarks.rows import Work, about, compute_as_the_curator, print_row, summary, timed
from curator.divergences import scattering as curators
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.privacy.batches import PASS_ROWS, ImageSpace, RecordBatch
from curator.privacy.private import Private
from curator.sanitizer.entropy import OsEntropy

_RECIPE = "embedding-mnist-10-cpu"
_SHAPE = ImageShape(channels=1, height=28, width=28, num_classes=10)
_IMAGES = 100
_GAUSSIAN: dict[str, Any] = {"mechanism.feature_map": "mix"}


def compare_scattering(repeats: int) -> None:
    """Print a row of the scattering of public images.

    Args:
        repeats: Calls of each.
    """
    images = torch.rand((_IMAGES, 1, 28, 28), generator=torch.Generator().manual_seed(0)) * 2 - 1
    transforms: dict[str, Callable[[Tensor], Tensor]] = {
        "now": scattering,
        "before": plain_scattering,
    }
    if find_spec("kymatio") is not None:
        transforms["kymatio"] = _kymatio()
    works: dict[str, Work] = {}
    for name, transform in transforms.items():
        works[name] = _call(transform, images)
        works[f"{name}, with backward"] = _backward(transform, images)
    _print("scattering", works, repeats, why_plain=why_plain())


def compare_release(repeats: int) -> None:
    """Print a row of a release, for each record of a batch.

    Args:
        repeats: Calls of each.
    """
    mechanism, gaussian = _mechanism({}), _mechanism(_GAUSSIAN)
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 256, (PASS_ROWS, 784), generator=generator).to(torch.uint8)
    batch = RecordBatch(
        levels_MD=levels,
        labels_M=torch.arange(PASS_ROWS) % 10,
        mask_M=torch.ones(PASS_ROWS, dtype=torch.bool),
        units_M=torch.arange(PASS_ROWS),
    )
    noise = OsEntropy()

    def release(by: MeanEmbedding) -> object:
        return by.setup([Private(batch)], noise)

    def before() -> object:
        with ExitStack() as stack:
            stack.enter_context(patch.object(curators, "why_plain", lambda: "asked"))
            for module in ("curator.sanitizer.summed", "curator.divergences.random_features"):
                stack.enter_context(patch(f"{module}.values_at_once", lambda _: 1 << 62))
            return release(gaussian)

    works: dict[str, Work] = {
        "now": lambda: release(mechanism),
        "Gaussian": lambda: release(gaussian),
        "before": before,
    }
    _print("release", works, repeats, records=PASS_ROWS, why_plain=curators.why_plain())


def compare_training(repeats: int) -> None:
    """Print a row of an offline training step: images, their gradient, an update.

    Args:
        repeats: Steps of each.
    """
    recipe = load_recipe(_RECIPE)
    embedding = saved_embedding(recipe)
    run = OfflineRun(embedding, num_steps=1 << 30, next_step=1)
    other = saved_embedding(load_recipe(_RECIPE, _GAUSSIAN))
    gaussian = OfflineRun(other, num_steps=1 << 30, next_step=1)
    turns = OfflineRun(other, num_steps=1 << 30, next_step=1, num_turns=3)
    parts = [
        replace(part, transform=plain_scattering) if part.transform is scattering else part
        for part in fourier_parts(other.parameters, _SHAPE)
    ]
    rows_of, means_KR = joined(parts), class_means(other).to(torch.float32)

    def step(gradient: Callable[[Tensor, Tensor], Tensor], *, plain: bool = False) -> Work:
        state = new_state(recipe, _SHAPE)
        if plain:
            state.optimizer.param_groups[0]["fused"] = None
        updates = EagerUpdates(state, "cpu")
        model = state.model

        def take() -> None:
            labels = recipe.mechanism.draw_labels(model.num_classes, state.randomness)
            latents = draw_latents(model.latent, len(labels), model.latent_dim, state.randomness)
            with _layer_by_layer() if plain else nullcontext():
                images = updates.images(latents, labels)
            updates.apply(gradient(images, labels), recipe.optimizer.lr)

        return take

    works: dict[str, Work] = {
        "now": step(run.gradient),
        "Gaussian": step(gaussian.gradient),
        "Gaussian in three turns": step(turns.gradient),
        "before": step(
            lambda images, labels: mmd_gradient(rows_of, means_KR, images, labels), plain=True
        ),
        "images and update alone": step(lambda images, _: torch.ones_like(images)),
    }
    _print("training step", works, repeats, why_plain=why_plain())


@contextmanager
def _layer_by_layer() -> Iterator[None]:
    """Let the generator's last layers be torch's own."""

    def layers(maps: Tensor, norm: nn.Module, convolution: nn.Module) -> Tensor:
        channels: Tensor = convolution(relu(norm(maps)))
        return channels

    with patch.object(conv_embedding, "rectified_convolution", layers):
        yield


def _mechanism(assignments: dict[str, Any]) -> MeanEmbedding:
    """Return the curator's side of a recipe with changes."""
    parameters = saved_embedding(load_recipe(_RECIPE, assignments)).parameters
    space = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)
    return MeanEmbedding(MeanEmbeddingSpec(**parameters), space)


def saved_embedding(recipe: Recipe) -> SavedEmbedding:
    """Return a release of random sums with the parameters of a recipe.

    Args:
        recipe: Of MNIST.
    """
    names = tuple(str(label) for label in range(10))
    facts: dict[str, Any] = {
        "name": "mnist",
        "channels": 1,
        "height": 28,
        "width": 28,
        "classes": names,
        "nominal_size": 60_000,
        "capacity": 90,
        "epsilon": 10.0,
        "delta": 1e-5,
    }
    parameters = recipe.mechanism.parameters(ImageFacts(**facts))
    width = parameters["num_features"] + parameters["num_scattering_features"] + 1
    sums_KR = torch.randn((10, width), generator=torch.Generator().manual_seed(0)).double()
    sums_KR[:, -1] = 600.0
    return SavedEmbedding(run_id="r", dataset=facts, parameters=parameters, sums_KR=sums_KR)


def _kymatio() -> Callable[[Tensor], Tensor]:
    """Return a scattering of as many coefficients, past a package that new SciPy cannot load."""
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D

    transform: Callable[[Tensor], Tensor] = ScatteringTorch2D(J=2, shape=(28, 28), L=8)
    return transform


def _call(transform: Callable[[Tensor], Tensor], images: Tensor) -> Work:
    return lambda: transform(images)


def _backward(transform: Callable[[Tensor], Tensor], images: Tensor) -> Work:
    def work() -> object:
        moving = images.clone().requires_grad_()
        rows = transform(moving)
        return torch.autograd.grad(rows, moving, torch.ones_like(rows))

    return work


def _print(what: str, works: dict[str, Work], repeats: int, **facts: object) -> None:
    """Print times, and how many times as long as now what has another name takes."""
    found = {name: summary(seconds) for name, seconds in timed(works, repeats).items()}
    print_row(
        **about(), benchmark="embedding", what=what, times=found, ratios=_ratios(found), **facts
    )


def _ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    ratios = {}
    for name, times in found.items():
        head, *rest = name.split(", ")
        ours = found[", ".join(["now", *rest])]
        if head != "now":
            ratios[name] = round(times["median_ms"] / ours["median_ms"], 2)
    return ratios


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the rows.

    Args:
        arguments: Of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="calls of each")
    given = parser.parse_args(None if arguments is None else list(arguments))
    compute_as_the_curator()
    tune_process()
    for compare in (compare_scattering, compare_training, compare_release):
        compare(given.repeats)


if __name__ == "__main__":
    main()
