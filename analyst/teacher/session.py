"""One session of a teacher: learn what is public, open or resume, follow the curator's gradients.

What goes to the curator are the network's weights and the linear map; what comes back is a noised
gradient with respect to the map, or, where a recipe asks for them, noised sums over each class. A
checkpoint has the network too, so that a resumed run needs no source.

Shapes: K classes, F features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from analyst.adaptation.public_images import read_public
from analyst.adaptation.state import load_module
from analyst.errors import CheckpointError, RecipeError
from analyst.generators.generator import ImageShape
from analyst.recipes.mechanisms import TEACHER
from analyst.teacher.classifier import (
    LARGEST_WEIGHT,
    TeacherClassifier,
    learn_source,
    new_teacher,
)
from analyst.teacher.recipe import TEACHERS, TeacherRecipe
from analyst.training.checkpoint import (
    Manifest,
    check_no_run,
    checkpoint_store,
    image_shape,
    must_fit_recipe,
    read_run,
)
from analyst.training.loop import Asker, Observer, Outcome, Stop, StopAsked, Update
from analyst.training.progress import Progress
from analyst.training.run_files import Outputs, Trained
from analyst.training.run_source import FeatureRun, RunSource, TeacherRun
from analyst.training.session import carry_through
from analyst.training.state import Ema, half_cosine


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherOptions:
    """Where a session reads and writes, whom it tells, and who stops it."""

    out: Path
    source: Path | None
    progress: Progress
    stop: Stop


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Teacher:
    """What a run taught: a classifier, or the means of each class in its network's features."""

    model: TeacherClassifier
    means_KR: Tensor  # of `TeacherClassifier.moments`; no rows where a map was taught
    shape: ImageShape
    run_id: str

    def check_map(self) -> None:
        """Check that a map was taught.

        Raises:
            CheckpointError: If class sums were asked, beside which a map stays what it was.
        """
        if len(self.means_KR):
            message = f"run {self.run_id} asked for class sums, and taught no map"
            raise CheckpointError(message, "Give a run whose recipe asks for gradients.")


@dataclass(slots=True)
class TeacherState:
    """What answers change: a map, its average and its last move; or the sum of all answers."""

    model: TeacherClassifier
    ema: Ema
    moved_KF: Tensor
    num_updates: int = 0

    @classmethod
    def of(cls, model: TeacherClassifier, recipe: TeacherRecipe) -> TeacherState:
        """Return the state before the first gradient."""
        ema = Ema(model.linear, recipe.training.ema_decay)
        num_classes, width = model.linear.weight.shape
        width = 2 * width + 1 if recipe.mechanism.asks == "class-sums" else width
        return cls(model, ema, torch.zeros(num_classes, width))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors, copied."""
        tensors = {"moved": self.moved_KF}
        tensors |= {f"model.{name}": value for name, value in self.model.named_parameters()}
        tensors |= {f"ema.{name}": value for name, value in self.ema.weights.items()}
        return {name: value.detach().clone().contiguous() for name, value in tensors.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors` returned into a state of the same recipe.

        Raises:
            KeyError: If one is missing.
            RuntimeError: If one has another shape.
        """
        load_module(self.model, tensors, part="model")
        self.ema.load({name: tensors[f"ema.{name}"] for name in self.ema.weights})
        self.moved_KF.copy_(tensors["moved"])


def start_teacher(
    curator: RunSource[TeacherRun], recipe: TeacherRecipe, options: TeacherOptions
) -> Outcome:
    """Learn the source, open a new run and follow its gradients.

    Raises:
        CheckpointError: If the output directory already holds a run.
        RecipeError: If the recipe learns a source and there is none, or the other way round.
    """
    check_no_run(options.out)
    facts = curator.describe(recipe.training.dataset)
    dataset = facts.image()
    model, randomness = build_teacher(recipe, image_shape(dataset))
    _learn(model, recipe, options, image_shape(dataset), randomness)  # before anything is charged
    state = TeacherState.of(model, recipe)
    mechanism = recipe.mechanism
    run = curator.open_run(
        facts.name,
        mechanism.wire_name,
        mechanism.parameters(facts),
        num_steps=recipe.training.steps,
    )
    outputs = _outputs(state, recipe, dataset, run, options)
    outputs.opened()
    return _follow(state, run, recipe, outputs, options)


def resume_teacher(curator: RunSource[TeacherRun], options: TeacherOptions) -> Outcome:
    """Go on with the run of an output directory.

    Returns:
        How it ended; at once if the run was finished before.

    Raises:
        CheckpointError: If there is no checkpoint, or it is damaged, or of no teacher.
    """
    tensors, manifest = checkpoint_store(options.out).load()
    recipe = _recipe_in(options.out, manifest)
    if manifest.finished:
        options.progress.say(f"run {manifest.run_id} is finished; there is nothing to resume")
        return Outcome.COMPLETED
    state = TeacherState.of(build_teacher(recipe, image_shape(manifest.dataset))[0], recipe)
    with must_fit_recipe(options.out):
        state.load(tensors)
    state.num_updates = manifest.num_updates
    run = curator.resume_run(manifest.run_id)
    if recipe.mechanism.asks == "class-sums":  # all ask the same, so lost answers can be had again
        run.go_back(manifest.next_step)
    outputs = _outputs(state, recipe, manifest.dataset, run, options)
    outputs.resumed(manifest.next_step)
    return _follow(state, run, recipe, outputs, options)


def load_teacher(out: Path) -> Teacher:
    """Return what a run's newest checkpoint holds; of a map the average.

    Raises:
        CheckpointError: If there is none, or class sums were asked and there was no answer yet.
    """
    tensors, manifest = read_run(out)
    recipe = _recipe_in(out, manifest)
    shape = image_shape(manifest.dataset)
    model, _ = build_teacher(recipe, shape)
    with must_fit_recipe(out):
        load_module(model, tensors, part="model")
        load_module(model.linear, tensors, part="ema")
    means_KR = torch.zeros(0)
    if recipe.mechanism.asks == "class-sums":
        if not manifest.num_updates:
            message = f"the run in {out} has no class sums yet"
            remedy = "Add --resume to 'teacher train' to go on with it."
            if manifest.finished:
                remedy = "All its answers were lost after they were charged: train another one."
            raise CheckpointError(message, remedy)
        noise = recipe.mechanism.noise_multiplier / math.sqrt(manifest.num_updates)
        means_KR = _class_means(tensors["moved"] / manifest.num_updates, noise)
    return Teacher(model=model.eval(), means_KR=means_KR, shape=shape, run_id=manifest.run_id)


def _recipe_in(out: Path, manifest: Manifest) -> TeacherRecipe:
    """Return the recipe of a run.

    Raises:
        CheckpointError: If it is of a run of another kind.
    """
    kind = manifest.recipe.get("mechanism", {}).get("kind")
    if kind != TEACHER:
        message = f"the run in {out} is of {kind}, and not of 'analyst teacher train'"
        raise CheckpointError(message, "Give the --out of that command.")
    return TEACHERS.from_dict(manifest.recipe, origin=f"the recipe in {out}")


def _class_means(sums_KV: Tensor, noise_multiplier: float) -> Tensor:
    """Return the means of moments [K, V - 1]; a noisy count is not let below twice its noise."""
    counts_K1 = sums_KV[:, -1:]  # like all others over sqrt(3)
    return sums_KV[:, :-1] / counts_K1.clamp_min(max(1.0, 2 * noise_multiplier))


def build_teacher(
    recipe: TeacherRecipe, shape: ImageShape
) -> tuple[TeacherClassifier, torch.Generator]:
    """Return a new teacher.

    Raises:
        RecipeError: If its network does not fit the images.
    """
    try:
        return new_teacher(recipe, shape)
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        message = f"the features of this recipe do not fit: {error}"
        raise RecipeError(message, "Change mechanism.features.") from None


def _learn(
    model: TeacherClassifier,
    recipe: TeacherRecipe,
    options: TeacherOptions,
    shape: ImageShape,
    randomness: torch.Generator,
) -> None:
    """Learn the source that is given.

    Raises:
        RecipeError: If the recipe learns one and there is none, or the other way round; or if what
            is learned is not what a curator takes.
    """
    if (options.source is None) != (recipe.source.epochs == 0):
        message = f"the recipe makes {recipe.source.epochs} passes over a source"
        remedy = "Give --source FILE.npz, of labelled images that are public or synthetic."
        if options.source is not None:
            remedy = "Leave --source out; or --set source.epochs=N."
        raise RecipeError(message, remedy)
    if options.source is not None:
        options.progress.say(f"learning {options.source}, which asks no curator")
        learn_source(model, recipe, read_public(options.source, shape), randomness)
        if not model.is_bounded():
            message = f"learning {options.source} did not converge: weights are huge, or not finite"
            raise RecipeError(message, "Choose a smaller source.lr, with --set.")


def _outputs(
    state: TeacherState,
    recipe: TeacherRecipe,
    dataset: dict[str, Any],
    run: FeatureRun,
    options: TeacherOptions,
) -> Outputs:
    trained = Trained(
        tensors=state.tensors,
        num_updates=lambda: state.num_updates,
        recipe=TEACHERS.to_dict(recipe),
        dataset=dataset,
        pays_per_step=True,
        count=lambda update: update.step,
        metrics_every=recipe.session.metrics_every,
        checkpoint_every=recipe.session.checkpoint_every,
    )
    return Outputs(options.out, run, trained, options.progress)


def _follow(
    state: TeacherState,
    run: FeatureRun,
    recipe: TeacherRecipe,
    outputs: Outputs,
    options: TeacherOptions,
) -> Outcome:
    work = partial(follow, state, run, recipe, observer=outputs, stop=options.stop)
    return carry_through(outputs, run, options.progress, work)


def follow(
    state: TeacherState,
    run: FeatureRun,
    recipe: TeacherRecipe,
    *,
    observer: Observer,
    stop: Stop,
) -> Outcome:
    """Take steps until the declared ones are used or a stop is asked.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised, with `state` as
        before the failed step.
    """
    ask = Asker(run, recipe.session.retry_for_s, observer, stop)
    network, sent_KF = state.model.network_bytes(), state.model.linear.weight.detach()
    if recipe.mechanism.asks == "class-sums":
        sent_KF = torch.zeros_like(state.moved_KF)
    try:
        while run.next_step <= run.num_steps:
            if stop.asked:
                return Outcome.STOPPED
            answer = ask(lambda: run.feature_gradient(sent_KF, network))
            if answer is not None:
                observer.updated(_moved(state, recipe, answer, run))
    except StopAsked:
        return Outcome.STOPPED
    return Outcome.COMPLETED


@torch.no_grad()
def _moved(
    state: TeacherState, recipe: TeacherRecipe, answer_KF: Tensor, run: FeatureRun
) -> Update:
    """Move the map against a gradient scaled to length 1, and what is left of the last move.

    Class sums are added up.
    """
    step, descent = run.next_step - 1, recipe.descent
    norm = float(torch.linalg.vector_norm(answer_KF))
    state.num_updates += 1
    if recipe.mechanism.asks == "class-sums":
        state.moved_KF.add_(answer_KF)
        return Update(
            step=step, num_updates=state.num_updates, learning_rate=0.0, gradient_norm=norm
        )
    cosine = half_cosine((step - 1) / run.num_steps) if descent.decay == "cosine" else 1.0
    state.moved_KF.mul_(descent.momentum).add_(answer_KF, alpha=-1 / max(norm, 1e-30))
    weight_KF = state.model.linear.weight
    weight_KF.add_(state.moved_KF, alpha=descent.lr * cosine).clamp_(
        -LARGEST_WEIGHT, LARGEST_WEIGHT
    )
    state.ema.update(state.model.linear)
    return Update(
        step=step,
        num_updates=state.num_updates,
        learning_rate=descent.lr * cosine,
        gradient_norm=norm,
    )
