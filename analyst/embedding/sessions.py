"""Fetch the one release of a run, and train on it without a curator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from analyst.embedding.autoencoder import split_release
from analyst.embedding.file import SavedEmbedding, load_embedding, save_embedding
from analyst.embedding.gaussians import split_statistics
from analyst.embedding.networks import read_network
from analyst.embedding.offline import OfflineBarrier
from analyst.embedding.scattering import why_plain
from analyst.errors import EmbeddingError, RecipeError
from analyst.recipes import Recipe
from analyst.recipes.mechanisms import RELEASED_ONCE
from analyst.training.checkpoint import checkpoint_store
from analyst.training.generated_means import GeneratedMeans
from analyst.training.loop import Stop
from analyst.training.progress import RELEASING, Progress
from analyst.training.run_source import Curator, OpenRun, RunSource
from analyst.training.session import (
    SessionOptions,
    SessionResult,
    recipe_of,
    resume_session,
    run_session,
)

if TYPE_CHECKING:
    from analyst.client.codec import DownloadedRelease


class ReleasingCurator(Curator, Protocol):
    """A curator that hands out releases."""

    def download_release(self, run_id: str) -> DownloadedRelease:
        """Return what a run released when it opened."""
        ...


def open_for_release(barrier: RunSource[OpenRun], recipe: Recipe, progress: Progress) -> str:
    """Open a run for its release alone; this is where the recipe's cost is charged.

    Args:
        barrier: The curator.
        recipe: Names the data set and the parameters.
        progress: Told the run, so that the release can be fetched again if the connection breaks.

    Returns:
        The run's id; the run is closed again.

    Raises:
        RecipeError: If the recipe's mechanism releases nothing when a run opens.
    """
    mechanism = recipe.mechanism
    if mechanism.pays_per_step:
        message = f"{mechanism.kind} pays for every step and has no release to download"
        raise RecipeError(message, f"Choose a recipe of {' or '.join(RELEASED_ONCE)}.")
    facts = barrier.describe(recipe.training.dataset)
    parameters = mechanism.parameters(facts)
    progress.say(
        "the curator charges the whole cost and makes the release now, which may take minutes; "
        "interrupting does not take the charge back"
    )
    with progress.waiting(RELEASING):
        run = barrier.open_run(facts.name, mechanism.wire_name, parameters, num_steps=1)
    progress.say(f"run {run.run_id} is charged; its release may be fetched at any time")
    run.close()
    return run.run_id


def download(
    barrier: ReleasingCurator,
    run_id: str,
    path: Path,
    *,
    network: Path | None = None,
    force: bool = False,
) -> SavedEmbedding:
    """Fetch the release of a run and write it to a file.

    Args:
        barrier: The curator.
        run_id: A run of yours; it may be closed.
        path: Where to write.
        network: The weights of the public network that the run names; kept in the file.
        force: Whether a file that exists is replaced.

    Raises:
        EmbeddingError: If the network is another one.
    """
    release = barrier.download_release(run_id)
    facts, sums_KR = barrier.describe(release.dataset).to_dict(), release.values
    embedding = SavedEmbedding(
        run_id=release.run_id, dataset=facts, parameters=release.parameters, sums_KR=sums_KR
    )
    if "code_width" in release.parameters:
        weights, sums_KR = split_release(sums_KR, release.parameters, embedding.shape)
        embedding = replace(embedding, autoencoder=weights, sums_KR=sums_KR)
    if "network" in release.parameters:
        moments, sums_KR = split_statistics(sums_KR, release.parameters, embedding.shape)
        embedding = replace(embedding, moments=moments, sums_KR=sums_KR)
    if network is not None:
        embedding = replace(embedding, network=checked_network(network, release.parameters))
    save_embedding(path, embedding, force=force)
    return embedding


def checked_network(path: Path, parameters: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights of the public network that a run or a recipe names.

    Args:
        path: Their file.
        parameters: Of the mechanism.

    Raises:
        EmbeddingError: If it names another network, or none.
    """
    weights, sha256 = read_network(path)
    if sha256 != parameters.get("network_sha256"):
        message = f"{path} has sha256 {sha256}, and the network that is named has another"
        remedy = "Give the file that the steward added; its digest is mechanism.network_sha256."
        raise EmbeddingError(message, remedy)
    return weights


def train_offline(
    path: Path, recipe: Recipe, options: SessionOptions, progress: Progress, stop: Stop
) -> SessionResult:
    """Train on a saved embedding as on a curator.

    Args:
        path: The saved embedding.
        recipe: The one that its run was opened with; generator, optimizer and training may differ.
        options: Where to write and what to start from.
        progress: The screen.
        stop: Asked between steps.
    """
    _allow_short_products(recipe.session.device)
    embedding = load_embedding(path)
    _say_why_plain(embedding, recipe.session.device, progress)
    past = _past(embedding, recipe)
    options = replace(options, decoder=embedding.autoencoder, past=past, is_offline=True)
    barrier = _barrier(embedding, recipe, past)
    return run_session(barrier, recipe, options, progress, stop)


def resume_offline(
    path: Path,
    overrides: Mapping[str, Any],
    options: SessionOptions,
    progress: Progress,
    stop: Stop,
) -> SessionResult:
    """Go on with a training on a saved embedding; here the checkpoint knows the next step."""
    _, manifest = checkpoint_store(options.out).load()
    reached = (manifest.num_steps, manifest.next_step)
    device, embedding = str(overrides.get("session.device", "cpu")), load_embedding(path)
    _allow_short_products(device)
    _say_why_plain(embedding, device, progress)
    recipe = recipe_of(manifest, options.out, overrides)
    past = _past(embedding, recipe)
    barrier = _barrier(embedding, recipe, past, reached)
    options = replace(options, past=past, is_offline=True)
    return resume_session(barrier, dict(overrides), options, progress, stop)


def _barrier(
    embedding: SavedEmbedding,
    recipe: Recipe,
    past: GeneratedMeans | None,
    reached: tuple[int, int] | None = None,
) -> OfflineBarrier:
    return OfflineBarrier(
        embedding,
        reached=reached,
        past=past,
        num_turns=recipe.training.turns,
        is_captured=recipe.session.cuda_graph,
    )


def _past(embedding: SavedEmbedding, recipe: Recipe) -> GeneratedMeans | None:
    """Return what the recipe wants to be remembered of generated images.

    Raises:
        RecipeError: If frequencies take turns: then no step has all features.
    """
    if recipe.training.memory > 1 and recipe.training.turns > 1:
        message = "training.memory needs all frequencies in each step, and training.turns has parts"
        raise RecipeError(message, "Leave one of them at 1.")
    num_classes, num_features = embedding.sums_KR.shape
    window = recipe.training.memory
    return GeneratedMeans(num_classes, num_features - 1, window) if window > 1 else None


def _say_why_plain(embedding: SavedEmbedding, device: str, progress: Progress) -> None:
    """Say why the scattering of a release is slower here than it could be."""
    if embedding.parameters.get("num_scattering_features") and device == "cpu" and why_plain():
        progress.say(f"the scattering runs in plain torch, several times slower: {why_plain()}")


def _allow_short_products(device: str) -> None:
    """Let a graphics card cut factors to 10 bits: a phase is off by thousandths, many times faster.

    What was released is not touched; gradients made of it are this side's own business.
    """
    if device.startswith("cuda"):
        torch.set_float32_matmul_precision("high")
