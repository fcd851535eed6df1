"""One sitting of an adaptation: open or resume, adapt, leave a checkpoint whatever happens."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from analyst.adaptation.config import AdaptationRecipe, MoveExtractorConfig
from analyst.adaptation.load import adaptation_from_dict
from analyst.adaptation.loop import FeatureRunPort, adapt
from analyst.adaptation.networks import DomainClassifier, build_classifier
from analyst.adaptation.outputs import AdaptationOutputs, adaptation_store
from analyst.adaptation.source import PublicImages, read_public
from analyst.adaptation.state import (
    AdaptationState,
    load_adaptation_tensors,
    load_module,
    new_adaptation,
)
from analyst.errors import CuratorUnreachable, RunClosed
from analyst.generators.generator import ImageShape
from analyst.training.checkpoint import Manifest
from analyst.training.errors import CheckpointError
from analyst.training.loop import Outcome, Stop
from analyst.training.outputs import read_run
from analyst.training.ports import DatasetPort
from analyst.training.progress import Progress
from analyst.training.rescue import rescue

_DOES_NOT_FIT = "the checkpoint in {out} does not fit its recipe: {error}"
_RESTORE = "Restore the directory from a backup."


class FeatureBarrierPort(Protocol):
    """What an adaptation needs of the curator."""

    def describe(self, dataset: str) -> DatasetPort:
        """Return the public facts of a data set."""
        ...

    def open_run(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], *, num_steps: int
    ) -> FeatureRunPort:
        """Reserve the whole cost of a run and return it."""
        ...

    def resume_run(self, run_id: str) -> FeatureRunPort:
        """Return an open run at the step that the ledger says is next."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Sitting:
    """Where a sitting reads and writes, whom it tells, and who stops it."""

    out: Path
    source: Path
    progress: Progress
    stop: Stop


def start_adaptation(
    barrier: FeatureBarrierPort, recipe: AdaptationRecipe, sitting: Sitting
) -> Outcome:
    """Open a new run and adapt.

    Args:
        barrier: The curator.
        recipe: What to do.
        sitting: Where and with whom.

    Returns:
        How it ended.

    Raises:
        CheckpointError: If the output directory already holds a run.
    """
    if adaptation_store(sitting.out).exists():
        message = f"{sitting.out} already holds a run"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")
    facts = barrier.describe(recipe.training.dataset)
    dataset: dict[str, Any] = {
        "name": facts.name,
        "channels": facts.channels,
        "height": facts.height,
        "width": facts.width,
    }
    shape = target_shape(dataset, recipe)
    source = _read_source(sitting, recipe, shape)
    dataset["source_sha256"] = source.digest
    state = new_adaptation(recipe, shape, source.images_NCHW)
    run = barrier.open_run(
        facts.name,
        recipe.mechanism.wire_name,
        recipe.mechanism.parameters(facts),
        num_steps=recipe.training.steps,
    )
    outputs = AdaptationOutputs(
        sitting.out, state, run, recipe, dataset=dataset, progress=sitting.progress
    )
    sitting.progress.say(f"opened run {run.run_id}: {run.num_steps:,} steps on '{facts.name}'")
    outputs.save_checkpoint()
    outputs.event("opened", {"run_id": run.run_id, "num_steps": run.num_steps})
    return _adapt(state, run, recipe, source, outputs=outputs, sitting=sitting)


def resume_adaptation(barrier: FeatureBarrierPort, sitting: Sitting) -> Outcome:
    """Go on with the run of an output directory.

    Args:
        barrier: The curator.
        sitting: Where and with whom; the source must be the same images.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint, it is damaged, or the source is another.
    """
    tensors, manifest = adaptation_store(sitting.out).load()
    recipe = recipe_of(manifest, sitting.out)
    if manifest.finished:
        sitting.progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return Outcome.COMPLETED
    shape = target_shape(manifest.dataset, recipe)
    source = _read_source(sitting, recipe, shape)
    if source.digest != manifest.dataset.get("source_sha256"):
        message = f"{sitting.source} does not hold the images that this run began with"
        raise CheckpointError(message, "Give the --source of the first sitting.")
    state = new_adaptation(recipe, shape, source.images_NCHW)
    try:
        load_adaptation_tensors(state, tensors)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        message = _DOES_NOT_FIT.format(out=sitting.out, error=error)
        raise CheckpointError(message, _RESTORE) from None
    state.num_updates = manifest.num_updates
    run = barrier.resume_run(manifest.run_id)
    outputs = AdaptationOutputs(
        sitting.out, state, run, recipe, dataset=manifest.dataset, progress=sitting.progress
    )
    outputs.event("resumed", {"run_id": run.run_id, "num_updates": state.num_updates})
    if run.next_step > manifest.next_step:
        outputs.skipped(manifest.next_step, run.next_step - 1)
    return _adapt(state, run, recipe, source, outputs=outputs, sitting=sitting)


def load_adapted(out: Path) -> tuple[DomainClassifier, ImageShape]:
    """Return the classifier of a run's newest checkpoint, with averaged weights.

    Args:
        out: The run's directory.

    Returns:
        The classifier, and the shape of the images that it takes.

    Raises:
        CheckpointError: If there is no run, or no whole checkpoint of an adaptation.
    """
    tensors, manifest = read_run(out)
    recipe = recipe_of(manifest, out)
    shape = target_shape(manifest.dataset, recipe)
    model = build_classifier(
        recipe.mechanism.architecture,
        shape,
        torch.Generator().manual_seed(recipe.training.seed),
        num_features=recipe.mechanism.num_features,
        clip_norm=recipe.mechanism.clip_norm,
    )
    try:
        load_module(model, tensors, part="ema")
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        message = _DOES_NOT_FIT.format(out=out, error=error)
        raise CheckpointError(message, _RESTORE) from None
    return model, shape


def recipe_of(manifest: Manifest, out: Path) -> AdaptationRecipe:
    """Return the recipe of a checkpoint.

    Args:
        manifest: Its words.
        out: Where it lies.
    """
    return adaptation_from_dict(manifest.recipe, origin=f"the recipe in {out}")


def target_shape(dataset: dict[str, Any], recipe: AdaptationRecipe) -> ImageShape:
    """Return the shape of the target's images, with the source's classes.

    Args:
        dataset: Public facts of the target.
        recipe: Has the number of the source's classes.
    """
    return ImageShape(
        channels=dataset["channels"],
        height=dataset["height"],
        width=dataset["width"],
        num_classes=recipe.training.num_classes,
    )


def _read_source(sitting: Sitting, recipe: AdaptationRecipe, shape: ImageShape) -> PublicImages:
    """Read the source, at its own size where a map brings it to the target's."""
    resized = isinstance(recipe.move, MoveExtractorConfig)
    return read_public(sitting.source, shape, resized=resized)


def _adapt(
    state: AdaptationState,
    run: FeatureRunPort,
    recipe: AdaptationRecipe,
    source: PublicImages,
    *,
    outputs: AdaptationOutputs,
    sitting: Sitting,
) -> Outcome:
    try:
        outcome = adapt(state, run, recipe, source, observer=outputs, stop=sitting.stop)
        finished = outcome is Outcome.COMPLETED
        outputs.save_checkpoint(finished=finished)
        outputs.event(outcome.value, {"num_updates": state.num_updates})
        if finished:
            with suppress(RunClosed, CuratorUnreachable):  # it is used up, so it ends itself
                run.close()
            outputs.save_certificate()
    except Exception as error:
        rescue(outputs, error, sitting.progress.warn)
        raise
    finally:
        outputs.close()
    return outcome
