"""One sitting of a training run: open or resume, train, leave a checkpoint whatever fails.

A checkpoint exists from before the first step, so a run that is killed at any moment can go on. An
error is raised again after the state was saved; the barrier's leave it as before the failed step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyst.device import check_device
from analyst.errors import CuratorUnreachable, RunClosed
from analyst.generators.decoded import DecodedGenerator
from analyst.recipes import Recipe, RecipeError, recipe_from_dict
from analyst.recipes.load import with_session
from analyst.rehearsal import BANNER, is_rehearsal
from analyst.training.checkpoint import CheckpointError, Manifest
from analyst.training.loop import Outcome, Stop, train
from analyst.training.outputs import Outputs, checkpoint_store, image_shape, read_run
from analyst.training.ports import DatasetPort, DecoderSource, RunPort, RunSource
from analyst.training.progress import Progress
from analyst.training.rescue import rescue
from analyst.training.state import TrainingState, load_generator, load_state, new_state


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """Where a sitting writes and what it starts from."""

    out: Path
    start_from: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """How a sitting ended."""

    outcome: Outcome
    recipe: Recipe
    num_updates: int
    next_step: int
    num_steps: int


def run_session(
    barrier: RunSource, recipe: Recipe, options: SessionOptions, progress: Progress, stop: Stop
) -> SessionResult:
    """Open a new run and train it.

    Args:
        barrier: The curator, or what stands in its place.
        recipe: What to do.
        options: Where to write and what to start from.
        progress: The screen.
        stop: Asked between steps.

    Returns:
        How it ended.

    Raises:
        CheckpointError: If the output directory already holds a run.
        RecipeError: If the generator cannot produce the data set's images, or needs what only a
            download has; or if torch cannot use the device.
    """
    check_device(recipe.session.device, RecipeError)
    store = checkpoint_store(options.out)
    if store.exists():
        message = f"{options.out} already holds a run"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")
    facts = barrier.describe(recipe.training.dataset)
    dataset = _dataset(facts)
    state = _state(recipe, dataset)
    if options.start_from is not None:
        start_from(state, recipe, dataset, options.start_from)
    take_decoder(state, barrier)
    mechanism = recipe.mechanism
    parameters = mechanism.parameters(facts)
    if is_rehearsal(facts.name):
        progress.warn(BANNER)
        _check_ends(recipe)
    if recipe.training.steps == "all":
        plan = barrier.plan(facts.name, mechanism.wire_name, parameters)
        # with nothing affordable, one step is asked so that the curator itself refuses
        num_steps = max(1, plan.affordable_steps)
    else:
        num_steps = recipe.training.steps
    run = barrier.open_run(facts.name, mechanism.wire_name, parameters, num_steps=num_steps)
    outputs = Outputs(options.out, state, run, recipe, dataset=dataset, progress=progress)
    progress.say(f"opened run {run.run_id}: {run.num_steps:,} steps on '{facts.name}'")
    outputs.save_checkpoint()
    outputs.event("opened", {"run_id": run.run_id, "num_steps": run.num_steps})
    return _train(state, run, recipe, outputs, progress=progress, stop=stop)


def resume_session(
    barrier: RunSource,
    overrides: dict[str, Any],
    options: SessionOptions,
    progress: Progress,
    stop: Stop,
) -> SessionResult:
    """Go on with the run of an output directory.

    Args:
        barrier: The curator, or what stands in its place.
        overrides: Changed `session` values, by dotted key.
        options: Where the run is.
        progress: The screen.
        stop: Asked between steps.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint or it is damaged.
        RecipeError: If an override is not one of `session`, or torch cannot use the device.
    """
    tensors, manifest = checkpoint_store(options.out).load()
    origin = f"the recipe in {options.out}"
    recipe = with_session(
        recipe_from_dict(manifest.recipe, origin=origin), overrides, origin=origin
    )
    check_device(recipe.session.device, RecipeError)
    if manifest.finished:
        progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return _result(Outcome.COMPLETED, recipe, manifest)
    state = _state(recipe, manifest.dataset)
    try:
        load_state(state, tensors)
    except (ValueError, RuntimeError, TypeError) as error:
        message = f"the checkpoint in {options.out} does not fit its recipe: {error}"
        raise CheckpointError(message, "Restore the directory from a backup.") from None
    state.num_updates = manifest.num_updates
    run = barrier.resume_run(manifest.run_id)
    outputs = Outputs(options.out, state, run, recipe, dataset=manifest.dataset, progress=progress)
    outputs.event("resumed", {"run_id": run.run_id, "num_updates": state.num_updates})
    progress.say(f"resumed run {run.run_id} after {state.num_updates:,} updates")
    if run.next_step > manifest.next_step:
        outputs.skipped(manifest.next_step, run.next_step - 1)
    return _train(state, run, recipe, outputs, progress=progress, stop=stop)


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
    try:
        load_generator(state.model, tensors, part="ema")
    except ValueError as error:
        message = f"the checkpoint in {directory} does not fit its recipe: {error}"
        raise CheckpointError(message, "Restore the directory from a backup.") from None
    state.ema.load({name: p.detach() for name, p in state.model.named_parameters()})


def take_decoder(state: TrainingState, source: RunSource) -> None:
    """Give a generator of codes the decoder that was released.

    Args:
        state: A new state, in place; other generators are left as they are.
        source: Has it if it is a download.

    Raises:
        RecipeError: If it has none, or another one than the recipe says.
    """
    if not isinstance(state.model, DecodedGenerator):
        return
    if not isinstance(source, DecoderSource):
        message = "this generator needs the decoder that is released when its run opens"
        remedy = "Use 'analyst embedding download', then 'analyst embedding train'."
        raise RecipeError(message, remedy)
    try:
        state.model.take_decoder(source.autoencoder)
    except ValueError as error:
        message = f"the download does not fit this generator: {error}"
        raise RecipeError(message, "Use the recipe that the run was opened with.") from None
    state.ema.load({name: p.detach() for name, p in state.model.named_parameters()})


def _train(
    state: TrainingState,
    run: RunPort,
    recipe: Recipe,
    outputs: Outputs,
    *,
    progress: Progress,
    stop: Stop,
) -> SessionResult:
    try:
        if state.num_updates == 0:
            outputs.save_grid(0)  # what the steps are to improve
        outcome = train(state, run, recipe, observer=outputs, stop=stop)
        finished = outcome is Outcome.COMPLETED
        outputs.save_grid(run.next_step - 1)
        outputs.save_checkpoint(finished=finished)
        outputs.event(outcome.value, {"num_updates": state.num_updates})
        if finished:
            _close(run, progress)
            outputs.save_certificate()
    except Exception as error:
        rescue(outputs, error, progress.warn)
        raise
    finally:
        outputs.close()
    return SessionResult(
        outcome=outcome,
        recipe=recipe,
        num_updates=state.num_updates,
        next_step=run.next_step,
        num_steps=run.num_steps,
    )


def _check_ends(recipe: Recipe) -> None:
    """Check that a run without a limit has an end.

    Raises:
        RecipeError: If it has none.
    """
    if recipe.training.steps == "all":
        message = "a rehearsal has no limit, so steps = 'all' would never end"
        raise RecipeError(message, "State a number, such as --steps 400.")


def _close(run: RunPort, progress: Progress) -> None:
    try:
        run.close()
    except RunClosed:
        progress.say("the run has ended at the curator")
    except CuratorUnreachable:
        progress.say(
            "the curator does not answer to the closing; the run is used up, so it ends itself"
        )


def _state(recipe: Recipe, dataset: dict[str, Any]) -> TrainingState:
    try:
        return new_state(recipe, image_shape(dataset))
    except (ValueError, RuntimeError) as error:
        message = f"the generator of this recipe does not fit: {error}"
        raise RecipeError(message, "Change [generator] or --device.") from None


def _dataset(facts: DatasetPort) -> dict[str, Any]:
    return {
        "name": facts.name,
        "channels": facts.channels,
        "height": facts.height,
        "width": facts.width,
        "classes": list(facts.classes),
    }


def _result(outcome: Outcome, recipe: Recipe, manifest: Manifest) -> SessionResult:
    return SessionResult(
        outcome=outcome,
        recipe=recipe,
        num_updates=manifest.num_updates,
        next_step=manifest.next_step,
        num_steps=manifest.num_steps,
    )
