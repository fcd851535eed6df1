"""One session of an adaptation: open or resume, adapt, leave a checkpoint whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from analyst.adaptation.loop import adapt
from analyst.adaptation.networks import DomainClassifier
from analyst.adaptation.public_images import PublicImages, read_public
from analyst.adaptation.recipe import (
    AdaptationRecipe,
    MoveExtractorConfig,
    adaptation_from_dict,
    adaptation_to_dict,
)
from analyst.adaptation.state import (
    AdaptationState,
    adaptation_tensors,
    load_adaptation_tensors,
    load_module,
    new_adaptation,
    new_classifier,
)
from analyst.errors import CheckpointError, FederationError
from analyst.generators.generator import ImageShape
from analyst.training.checkpoint import (
    Manifest,
    check_no_run,
    checkpoint_store,
    must_fit_recipe,
    read_run,
)
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.folder import FederationFolder, check_one_run
from analyst.training.federation.members import ConnectMember, Say
from analyst.training.federation.rounds import Combine
from analyst.training.federation.setup import FederationSetup
from analyst.training.loop import Outcome, Stop
from analyst.training.progress import Progress
from analyst.training.run_files import Outputs, Trained
from analyst.training.run_source import Curator, FeatureRun, RunSource
from analyst.training.session import carry_through


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationOptions:
    """Where a session reads and writes, whom it tells, and who stops it."""

    out: Path
    source: Path
    progress: Progress
    stop: Stop


def start_adaptation(
    curator: RunSource[FeatureRun], recipe: AdaptationRecipe, options: AdaptationOptions
) -> Outcome:
    """Open a new run and adapt.

    Raises:
        CheckpointError: If the output directory already holds a run.
    """
    check_no_run(options.out)
    facts = curator.describe(recipe.training.dataset)
    dataset = facts.image()
    del dataset["classes"]  # the target's are not the source's
    shape = target_shape(dataset, recipe)
    source = _read_source(options, recipe, shape)
    dataset["source_sha256"] = source.digest
    state = new_adaptation(recipe, shape, source.images_NCHW)
    run = curator.open_run(
        facts.name,
        recipe.mechanism.wire_name,
        recipe.mechanism.parameters(facts),
        num_steps=recipe.training.steps,
    )
    outputs = _outputs(state, recipe, dataset, run, options)
    outputs.opened()
    return _adapt(state, run, recipe, source, outputs, options)


def resume_adaptation(curator: RunSource[FeatureRun], options: AdaptationOptions) -> Outcome:
    """Go on with the run of an output directory; the source must be the same images.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint, it is damaged, or the source is another.
    """
    tensors, manifest = checkpoint_store(options.out).load()
    recipe = recipe_of(manifest, options.out)
    if manifest.finished:
        options.progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return Outcome.COMPLETED
    shape = target_shape(manifest.dataset, recipe)
    source = _read_source(options, recipe, shape)
    if source.digest != manifest.dataset.get("source_sha256"):
        message = f"{options.source} does not hold the images that this run began with"
        raise CheckpointError(message, "Give the --source of the first session.")
    state = new_adaptation(recipe, shape, source.images_NCHW)
    with must_fit_recipe(options.out):
        load_adaptation_tensors(state, tensors)
    state.num_updates = manifest.num_updates
    run = curator.resume_run(manifest.run_id)
    outputs = _outputs(state, recipe, manifest.dataset, run, options)
    outputs.resumed(manifest.next_step)
    return _adapt(state, run, recipe, source, outputs, options)


def load_adapted(out: Path) -> tuple[DomainClassifier, ImageShape]:
    """Return the classifier of a run's newest checkpoint, with averaged weights.

    Returns:
        The classifier, and the shape of the images that it takes.
    """
    tensors, manifest = read_run(out)
    recipe = recipe_of(manifest, out)
    shape = target_shape(manifest.dataset, recipe)
    model, _ = new_classifier(recipe, shape)
    with must_fit_recipe(out):
        load_module(model, tensors, part="ema")
    return model, shape


def recipe_of(manifest: Manifest, out: Path) -> AdaptationRecipe:
    """Return the recipe of a checkpoint."""
    return adaptation_from_dict(manifest.recipe, origin=f"the recipe in {out}")


def target_shape(dataset: dict[str, Any], recipe: AdaptationRecipe) -> ImageShape:
    """Return the shape of the target's images, with the source's classes."""
    return ImageShape(
        channels=dataset["channels"],
        height=dataset["height"],
        width=dataset["width"],
        num_classes=recipe.training.num_classes,
    )


def _read_source(
    options: AdaptationOptions, recipe: AdaptationRecipe, shape: ImageShape
) -> PublicImages:
    """Read the source, at its own size where a map brings it to the target's."""
    resized = isinstance(recipe.move, MoveExtractorConfig)
    return read_public(options.source, shape, resized=resized)


def _outputs(
    state: AdaptationState,
    recipe: AdaptationRecipe,
    dataset: dict[str, Any],
    run: FeatureRun,
    options: AdaptationOptions,
) -> Outputs:
    trained = Trained(
        tensors=partial(adaptation_tensors, state),
        num_updates=lambda: state.num_updates,
        recipe=adaptation_to_dict(recipe),
        dataset=dataset,
        pays_per_step=True,
        count=lambda update: update.step,
        metrics_every=recipe.session.metrics_every,
        checkpoint_every=recipe.session.checkpoint_every,
    )
    return Outputs(options.out, run, trained, options.progress)


def _adapt(
    state: AdaptationState,
    run: FeatureRun,
    recipe: AdaptationRecipe,
    source: PublicImages,
    outputs: Outputs,
    options: AdaptationOptions,
) -> Outcome:
    def work() -> Outcome:
        return adapt(state, run, recipe, source, observer=outputs, stop=options.stop)

    return carry_through(outputs, run, options.progress, work)


Reach = Callable[
    [AdaptationRecipe, Manifest | None, Say], AbstractContextManager[RunSource[FeatureRun]]
]
"""Reaches them for a recipe, for a run that goes on if there is a manifest, and says problems."""


def one_curator(connect: Callable[[], AbstractContextManager[Curator]], out: Path) -> Reach:
    """Return how one curator is reached."""

    def reach(
        recipe: AdaptationRecipe, manifest: Manifest | None, say: Say
    ) -> AbstractContextManager[RunSource[FeatureRun]]:
        del recipe, manifest, say
        check_one_run(out)
        return connect()

    return reach


def several_curators(config: FederationConfig, connect: ConnectMember, out: Path) -> Reach:
    """Return how several curators are reached."""

    def reach(
        recipe: AdaptationRecipe, manifest: Manifest | None, say: Say
    ) -> AbstractContextManager[RunSource[FeatureRun]]:
        setup = FederationSetup(
            config=config,
            connect=connect,
            folder=FederationFolder(out),
            parameters=recipe.mechanism.parameters,
            patience_s=recipe.session.retry_for_s,
            say=say,
        )
        if manifest is not None:
            return setup.resumed(manifest)
        if config.combine is Combine.SUM:
            message = f"{recipe.mechanism.kind} pays for every step and has no release to add"
            raise FederationError(message, "Choose --combine mean or round-robin.")
        return setup.new(config.combine or Combine.MEAN)

    return reach
