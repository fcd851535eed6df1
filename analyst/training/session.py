"""One session of a training run: open or resume, train, leave a checkpoint whatever fails.

A checkpoint exists from before the first step, so a run that is killed at any moment can go on. An
error is raised again after the state was saved; the barrier's leave it as before the failed step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from analyst.device import check_device
from analyst.errors import CuratorUnreachable, RecipeError, RunClosed
from analyst.generators.decoded import DecodedGenerator
from analyst.recipes import Recipe, recipe_from_dict, recipe_to_dict
from analyst.recipes.load import with_session
from analyst.rehearsal import BANNER, is_rehearsal
from analyst.training.checkpoint import (
    Manifest,
    check_no_run,
    checkpoint_store,
    image_shape,
    must_fit_recipe,
    read_run,
)
from analyst.training.generated_means import GeneratedMeans
from analyst.training.grid import is_drawable
from analyst.training.guided import Guide, GuidedRun
from analyst.training.loop import Outcome, Stop, train
from analyst.training.progress import OPENING, RELEASING, Progress
from analyst.training.run_files import Outputs, SampleGrids, Trained
from analyst.training.run_source import AheadRun, ImageRun, OpenRun, RunSource
from analyst.training.state import (
    TrainingState,
    load_generator,
    load_state,
    new_state,
    state_tensors,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """Where a session writes and what it starts from."""

    out: Path
    start_from: Path | None = None
    decoder: Mapping[str, Tensor] | None = None  # released weights by name, of a download
    guide: Guide | None = None  # sees every image; `training.guidance` says how much it counts
    past: GeneratedMeans | None = None  # of a download; `training.memory` says of how many steps
    is_offline: bool = False  # gradients are made here, of a download


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionResult:
    """How a session ended."""

    outcome: Outcome
    recipe: Recipe
    num_updates: int
    next_step: int
    num_steps: int


def run_session(
    source: RunSource[ImageRun],
    recipe: Recipe,
    options: SessionOptions,
    progress: Progress,
    stop: Stop,
) -> SessionResult:
    """Open a new run and train it.

    Raises:
        CheckpointError: If the output directory already holds a run.
        RecipeError: If the generator cannot produce the data set's images; if it, the memory or
            turns need what only a download has; or if torch cannot use the device.
    """
    check_no_run(options.out)
    facts = source.describe(recipe.training.dataset)
    dataset = facts.image()
    state = first_state(recipe, dataset, options)
    _check_release(recipe, options)
    take_decoder(state, options.decoder)
    mechanism = recipe.mechanism
    parameters = mechanism.parameters(facts)
    if is_rehearsal(facts.name):
        progress.warn(BANNER)
        _check_ends(recipe)
    if recipe.training.steps == "all":
        plan = source.plan(facts.name, mechanism.wire_name, parameters)
        # with nothing affordable, one step is asked so that the curator itself refuses
        num_steps = max(1, plan.affordable_steps)
        progress.say(
            f"steps = 'all' is {plan.affordable_steps:,} steps, all that budget, share and policy "
            f"afford now: epsilon {plan.epsilon_after:.4f} in total afterwards; --steps N is fewer"
        )
    else:
        num_steps = recipe.training.steps
    with progress.waiting(OPENING if mechanism.pays_per_step else RELEASING):
        run = source.open_run(facts.name, mechanism.wire_name, parameters, num_steps=num_steps)
    session = _Session(options, state, recipe, dataset, run, progress)
    session.outputs.opened()
    return session.train(stop)


def _check_release(recipe: Recipe, options: SessionOptions) -> None:
    """Refuse what only a download can do, and what only a curator can.

    Raises:
        RecipeError: If the recipe asks for it.
    """
    remedy = "Train on the release: 'analyst embedding download', then 'embedding train'."
    if recipe.training.memory > 1 and options.past is None:
        message = "training.memory is of features, which a curator's gradients do not show"
        raise RecipeError(message, f"{remedy} Or add --set training.memory=1.")
    if recipe.training.depth > 1 and options.is_offline:
        message = "training.depth is of steps on their way to a curator, and none is asked here"
        raise RecipeError(message, "Add --set training.depth=1.")
    if recipe.training.turns > 1 and not options.is_offline:
        message = "training.turns is of frequencies, and a curator's gradients are of all of them"
        raise RecipeError(message, f"{remedy} Or add --set training.turns=1.")


def first_state(recipe: Recipe, dataset: dict[str, Any], options: SessionOptions) -> TrainingState:
    """Return what a new run starts from; what does not fit is told before anything is charged.

    Args:
        recipe: Of the run.
        dataset: Public facts; a generator keeps which teacher guided it beside them.
        options: The generator to start from, and the guide, if there are any.

    Raises:
        RecipeError: If the generator cannot produce the data set's images, if the guide does not
            count or does not know them, or if torch cannot use the device.
    """
    check_device(recipe.session.device, RecipeError)
    _check_guide(recipe, dataset, options.guide)
    state = _state(recipe, dataset)
    if options.start_from is not None:
        start_from(state, recipe, dataset, options.start_from)
    return state


def resume_session(
    source: RunSource[ImageRun],
    overrides: dict[str, Any],
    options: SessionOptions,
    progress: Progress,
    stop: Stop,
) -> SessionResult:
    """Go on with the run of an output directory.

    Args:
        source: Where its run is.
        overrides: Changed `session` values, by dotted key.
        options: Where the run is kept.
        progress: The screen.
        stop: Asked between steps.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint or it is damaged.
        RecipeError: If an override is not one of `session`, or torch cannot use the device.
    """
    tensors, manifest = checkpoint_store(options.out).load()
    recipe = recipe_of(manifest, options.out, overrides)
    check_device(recipe.session.device, RecipeError)
    if manifest.finished:
        progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return SessionResult(
            outcome=Outcome.COMPLETED,
            recipe=recipe,
            num_updates=manifest.num_updates,
            next_step=manifest.next_step,
            num_steps=manifest.num_steps,
        )
    _check_guide(recipe, manifest.dataset, options.guide)
    state = _state(recipe, manifest.dataset)
    with must_fit_recipe(options.out):
        load_state(state, tensors)
        if options.past is not None:
            options.past.load(tensors)
    state.num_updates = manifest.num_updates
    run = source.resume_run(manifest.run_id)
    if state.sent:  # their answers are free as long as the curator keeps them
        cast("AheadRun", run).go_back(manifest.next_step)
    session = _Session(options, state, recipe, manifest.dataset, run, progress)
    session.outputs.resumed(manifest.next_step)
    return session.train(stop)


def recipe_of(manifest: Manifest, out: Path, overrides: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a checkpoint, with other session values.

    Raises:
        RecipeError: If an override is not one of `session`.
    """
    origin = f"the recipe in {out}"
    return with_session(recipe_from_dict(manifest.recipe, origin=origin), overrides, origin=origin)


def carry_through(
    outputs: Outputs, run: OpenRun, progress: Progress, work: Callable[[], Outcome]
) -> Outcome:
    """Do the work of a session and keep what came of it, whatever fails.

    Args:
        outputs: Closed at the end.
        run: Closed if all declared steps are used.
        progress: The screen.
        work: Takes the steps, and notes each with `outputs`.
    """
    try:
        outcome = work()
        outputs.ended(outcome)
        if outcome is Outcome.COMPLETED:
            _close(run, progress)
            outputs.save_certificate()
    except Exception as error:
        outputs.save_after(error)
        raise
    finally:
        outputs.close()
    return outcome


class _Session:
    """A run that is open, with everything that it trains and writes."""

    def __init__(
        self,
        options: SessionOptions,
        state: TrainingState,
        recipe: Recipe,
        dataset: dict[str, Any],
        run: ImageRun,
        progress: Progress,
    ) -> None:
        self._state, self._recipe, self._run, self._progress = state, recipe, run, progress
        self._guide, self._past, out = options.guide, options.past, options.out
        channels = image_shape(dataset).channels
        self._grids = SampleGrids(out, state, recipe) if is_drawable(channels) else None
        if self._grids is None:
            progress.say(f"no sample grids: images of {channels} channels are no pictures")
        trained = Trained(
            tensors=self._tensors,
            num_updates=lambda: state.num_updates,
            recipe=recipe_to_dict(recipe),
            dataset=dataset,
            pays_per_step=recipe.mechanism.pays_per_step,
            count=lambda update: update.num_updates,
            metrics_every=recipe.session.metrics_every,
            checkpoint_every=recipe.session.checkpoint_every,
            keep_checkpoints=recipe.session.keep_checkpoints,
            grids=self._grids,
        )
        self.outputs = Outputs(out, run, trained, progress)

    def _tensors(self) -> dict[str, Tensor]:
        return state_tensors(self._state) | ({} if self._past is None else self._past.tensors())

    def train(self, stop: Stop) -> SessionResult:
        """Take the steps that are left."""
        state, run = self._state, self._run
        asked: ImageRun = run
        if self._guide is not None:
            asked = GuidedRun(run, self._guide, self._recipe.training.guidance)

        def work() -> Outcome:
            if self._grids is not None and state.num_updates == 0:
                self._grids.save(0)  # what the steps are to improve
            outcome = train(state, asked, self._recipe, observer=self.outputs, stop=stop)
            if self._grids is not None:
                self._grids.save(run.next_step - 1)
            return outcome

        outcome = carry_through(self.outputs, run, self._progress, work)
        return SessionResult(
            outcome=outcome,
            recipe=self._recipe,
            num_updates=state.num_updates,
            next_step=run.next_step,
            num_steps=run.num_steps,
        )


def _check_guide(recipe: Recipe, dataset: dict[str, Any], guide: Guide | None) -> None:
    """Check that there is a teacher where one counts, and that it is of such images.

    A generator keeps which teacher guided it beside the facts of its data set.

    Raises:
        RecipeError: If there is none, if it would not count, or if it is another one.
    """
    if (guide is not None) != (recipe.training.guidance > 0):
        message = f"training.guidance is {recipe.training.guidance:g}"
        remedy = "Add --teacher DIR, of 'analyst teacher train'."
        if guide is not None:
            remedy = "Add --set training.guidance=0.1, or leave --teacher out."
        raise RecipeError(message, remedy)
    if guide is None:
        return
    if guide.shape != image_shape(dataset) or recipe.generator.kind == "decoded":
        message = "the teacher does not know what this generator makes"
        raise RecipeError(message, "Give one of the same data set, to a generator of images.")
    if dataset.setdefault("teacher_run", guide.run_id) != guide.run_id:
        message = f"this run was guided by run {dataset['teacher_run']} until now"
        raise RecipeError(message, "Give the --teacher of the first session.")


def _check_ends(recipe: Recipe) -> None:
    """Check that a run without a limit has an end.

    Raises:
        RecipeError: If it has none.
    """
    if recipe.training.steps == "all":
        message = "a rehearsal has no limit, so steps = 'all' would never end"
        raise RecipeError(message, "State a number, such as --steps 400.")


def _close(run: OpenRun, progress: Progress) -> None:
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
