"""A chain, stage after stage: today's sessions, each with what earlier stages left in the folder.

What exists is not made again, so a chain that was killed anywhere goes on. Every run is opened with
a key that was written down before, so that none is opened, or paid for, twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast, final

import numpy as np

from analyst.chains.folder import Chain, holds_chain, write_chain
from analyst.chains.plan import plan_chain
from analyst.chains.recipe import (
    ChainRecipe,
    GeneratorStage,
    RefineStage,
    Stage,
    StageRecipe,
    TeacherStage,
    recipes_of,
    with_noise,
    with_seed,
)
from analyst.embedding.sessions import (
    ReleasingCurator,
    download,
    open_for_release,
    resume_offline,
    train_offline,
)
from analyst.errors import CheckpointError, RecipeError
from analyst.evaluation.augment import augmented
from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from analyst.evaluation.sample import sample_run
from analyst.facts import ImageFacts, PlanTotals
from analyst.new_file import write_file
from analyst.recipes import Recipe
from analyst.teacher.guidance import guide_of
from analyst.teacher.recipe import TeacherRecipe
from analyst.teacher.refine import refine
from analyst.teacher.session import (
    TeacherOptions,
    build_teacher,
    load_teacher,
    resume_teacher,
    start_teacher,
)
from analyst.training.checkpoint import check_no_run, checkpoint_store, image_shape
from analyst.training.grid import is_drawable
from analyst.training.loop import Outcome, Stop
from analyst.training.progress import Progress
from analyst.training.run_source import AnyRun, Curator
from analyst.training.session import SessionOptions, first_state, resume_session, run_session


def begin_chain(barrier: Curator, recipe: ChainRecipe, out: Path) -> Chain:
    """Plan a chain and write it down; nothing is charged yet.

    Args:
        barrier: The curator.
        recipe: The chain.
        out: A new folder, or an empty one.

    Raises:
        CheckpointError: If a chain or a run was begun there.
        RecipeError: If a stage's recipe does not fit its stage, the data set or this machine, or
            no noise is enough.
    """
    if holds_chain(out):
        message = f"{out} already holds a chain"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")
    check_no_run(out)
    stages = recipes_of(recipe)
    facts = barrier.describe(recipe.training.dataset)
    for one in stages.values():
        _check_fits(one, facts, out)
    _check_augment(recipe, facts)
    parts = plan_chain(barrier, recipe).parts
    noise = {part.stage: part.noise_multiplier for part in parts}
    for name, stage in recipe.stage.items():
        paid = getattr(stage, "release", None) or name
        if name in stages:
            stages[name] = with_noise(stages[name], noise[paid])
    chain = Chain(
        out=out, key=secrets.token_hex(_KEY_BYTES), recipe=recipe, stages=stages, parts=parts
    )
    write_chain(chain)
    return chain


def run_chain(barrier: ReleasingCurator, chain: Chain, progress: Progress, stop: Stop) -> Outcome:
    """Make what is missing, stage after stage.

    Args:
        barrier: The curator.
        chain: As it was begun.
        progress: Told which stage it is in.
        stop: Asked between stages, and by each.

    Returns:
        Why it ended.
    """
    driver, count = _Driver(barrier, chain, progress, stop), len(chain.recipe.stage)
    for number, (name, stage) in enumerate(chain.recipe.stage.items(), 1):
        if stop.asked:
            return Outcome.STOPPED
        progress.say(f"stage {number} of {count}, {name}: {_words(stage)}")
        if driver.carry_out(name, stage) is Outcome.STOPPED:
            return Outcome.STOPPED
    return Outcome.COMPLETED


_KEY_BYTES: Final = 16


@final
class _Keyed:
    """A curator that opens one run, however often it is asked, and is paid once."""

    def __init__(self, barrier: Curator, key: str) -> None:
        self._barrier, self._key = barrier, key

    def describe(self, dataset: str) -> ImageFacts:
        """See `RunSource`."""
        return self._barrier.describe(dataset)

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> PlanTotals:
        """See `RunSource`."""
        return self._barrier.plan(
            dataset, mechanism, parameters, num_steps=num_steps, epsilon=epsilon
        )

    def open_run(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], *, num_steps: int
    ) -> AnyRun:
        """Return the run of this key; see `RunSource`."""
        return self._barrier.open_run(
            dataset, mechanism, parameters, num_steps=num_steps, idempotency_key=self._key
        )

    def resume_run(self, run_id: str) -> AnyRun:
        """See `RunSource`."""
        return self._barrier.resume_run(run_id)


@final
class _Driver:
    """Carries out the stages of one chain."""

    def __init__(
        self, barrier: ReleasingCurator, chain: Chain, progress: Progress, stop: Stop
    ) -> None:
        self._barrier, self._chain, self._progress, self._stop = barrier, chain, progress, stop

    def carry_out(self, name: str, stage: Stage) -> Outcome:
        """Make what a stage is to leave, unless it is there."""
        match stage:
            case GeneratorStage():
                return self._generate(name, stage)
            case TeacherStage():
                return self._teach(name, stage)
            case RefineStage():
                return self._refine(name, stage)

    def _generate(self, name: str, stage: GeneratorStage) -> Outcome:
        chain = self._chain
        if chain.images(name).exists():
            return Outcome.COMPLETED
        recipe, release = cast("Recipe", chain.stages[name]), None
        if not recipe.mechanism.pays_per_step:
            release = chain.release(stage.release or name)
            if not release.exists():
                self._fetch(name, recipe, release)
        guide = None
        if stage.teacher is not None:
            guide = guide_of(load_teacher(chain.home(stage.teacher)))
        for member in range(stage.members):
            options = SessionOptions(
                out=chain.home(name, member), start_from=self._start(stage, member), guide=guide
            )
            seeded = with_seed(recipe, recipe.training.seed + member)
            if self._train(name, seeded, options, release) is Outcome.STOPPED:
                return Outcome.STOPPED
        save_images(chain.images(name), self._sampled(name, stage), force=True)
        return Outcome.COMPLETED

    def _fetch(self, name: str, recipe: Recipe, release: Path) -> None:
        """Pay for a release, unless that was done, and fetch it; the file says that all is here."""
        run_id = open_for_release(self._keyed(name), recipe, self._progress)
        certificate = getattr(self._barrier.resume_run(run_id), "certificate", "")
        if certificate:
            path = self._chain.certificates()[name]
            write_file(path, f"{certificate}\n".encode(), replace=True)
        download(self._barrier, run_id, release)

    def _train(
        self, name: str, recipe: Recipe, options: SessionOptions, release: Path | None
    ) -> Outcome:
        """Train one generator, or go on."""
        store = checkpoint_store(options.out)
        say, stop = self._progress, self._stop
        if not store.exists():
            if release is not None:
                return train_offline(release, recipe, options, say, stop).outcome
            return run_session(self._keyed(name), recipe, options, say, stop).outcome
        if store.manifest().finished:
            return Outcome.COMPLETED
        if release is not None:
            here = {"session.device": recipe.session.device}
            return resume_offline(release, here, options, say, stop).outcome
        return resume_session(self._barrier, {}, options, say, stop).outcome

    def _teach(self, name: str, stage: TeacherStage) -> Outcome:
        out, source = self._chain.home(name), self._chain.images(stage.source)
        store = checkpoint_store(out)
        if store.exists() and store.manifest().finished:
            return Outcome.COMPLETED
        options = TeacherOptions(out=out, source=source, progress=self._progress, stop=self._stop)
        if store.exists():
            return resume_teacher(self._barrier, replace(options, source=None))
        return start_teacher(
            self._keyed(name), cast("TeacherRecipe", self._chain.stages[name]), options
        )

    def _refine(self, name: str, stage: RefineStage) -> Outcome:
        chain = self._chain
        if not chain.images(name).exists():
            teacher = load_teacher(chain.home(stage.teacher))
            data = load_images(chain.images(stage.source))
            refined = refine(data, teacher, how=stage.how, least_share=stage.sure)
            self._progress.say(
                f"the teacher disagrees with {refined.num_disagreed:,} of {len(data.labels):,} "
                f"labels, and {refined.num_dropped:,} images are left out"
            )
            seed = chain.recipe.training.seed
            changed = augmented(refined.images, stage.augment, seed=seed)
            save_images(chain.images(name), changed, force=True)
        return Outcome.COMPLETED

    def _start(self, stage: GeneratorStage, member: int) -> Path | None:
        """Return whose weights a member starts from: those of the member of the same number."""
        if stage.start_from is None:
            return None
        first = cast("GeneratorStage", self._chain.recipe.stage[stage.start_from])
        return self._chain.home(stage.start_from, member % first.members)

    def _sampled(self, name: str, stage: GeneratorStage) -> LabelledImages:
        """Return images of all members, in parts that differ by one at most."""
        recipe = cast("Recipe", self._chain.stages[name])
        made = [
            sample_run(
                self._chain.home(name, member),
                count,
                seed=recipe.training.seed + member,
                weights="ema",
                device=recipe.session.device,
            )
            for member, count in enumerate(_counts(stage))
            if count
        ]
        mixed = replace(
            made[0],
            images=np.concatenate([one.images for one in made]),
            labels=np.concatenate([one.labels for one in made]),
        )
        return augmented(mixed, stage.augment, seed=recipe.training.seed)

    def _keyed(self, name: str) -> _Keyed:
        return _Keyed(self._barrier, f"{self._chain.key}-{name}")


def _counts(stage: GeneratorStage) -> Iterator[int]:
    """Yield how many images each member makes."""
    whole, left = divmod(stage.samples, stage.members)
    yield from (whole + (member < left) for member in range(stage.members))


def _check_fits(recipe: StageRecipe, facts: ImageFacts, out: Path) -> None:
    """Build what a stage trains, so that what does not fit is told before anything is charged."""
    dataset = facts.image()
    if isinstance(recipe, TeacherRecipe):
        build_teacher(recipe, image_shape(dataset))
    else:
        alone = replace(recipe, training=replace(recipe.training, guidance=0.0))
        first_state(alone, dataset, SessionOptions(out=out))


def _check_augment(recipe: ChainRecipe, facts: ImageFacts) -> None:
    for name, stage in recipe.stage.items():
        if getattr(stage, "augment", 0.0) > 0 and not is_drawable(facts.channels):
            message = f"images of {facts.channels} channels are no pictures that can be turned"
            raise RecipeError(message, f"Leave them as they are: --set {name}.augment=0.")


def _words(stage: Stage) -> str:
    """Return what a stage does, in a few words."""
    match stage:
        case GeneratorStage(release=None):
            return f"{stage.recipe}, {stage.share:g} of the shares, then {stage.samples:,} images"
        case GeneratorStage():
            return f"on the release of {stage.release}, free, then {stage.samples:,} images"
        case TeacherStage():
            return f"{stage.recipe}, {stage.share:g} of the shares, on the images of {stage.source}"
        case RefineStage():
            return f"images of {stage.source} as {stage.teacher} sees them, free"
