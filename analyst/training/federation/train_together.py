"""One session of a training run with several curators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.device import check_device
from analyst.embedding.sessions import resume_offline, train_offline
from analyst.errors import RecipeError
from analyst.recipes import Recipe, load_recipe
from analyst.recipes.flags import read_overrides
from analyst.training.checkpoint import check_no_run, checkpoint_store
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.rounds import Combine
from analyst.training.federation.setup import FederationSetup, members_again
from analyst.training.federation.sum_of_releases import embedding_file, release_sum
from analyst.training.session import (
    SessionOptions,
    SessionResult,
    recipe_of,
    resume_session,
    run_session,
)

if TYPE_CHECKING:
    from analyst.training.federation.commands import FederationCommand
    from analyst.training.loop import Stop
    from analyst.training.progress import Progress


def train_together(given: FederationCommand, progress: Progress, stop: Stop) -> SessionResult:
    """Open runs at all curators, or resume them, and train."""
    arguments = given.arguments
    options = SessionOptions(out=arguments.out, start_from=arguments.start_from)
    work = _resume if arguments.resume else _start
    return work(given, options, progress, stop)


def _start(
    given: FederationCommand, options: SessionOptions, progress: Progress, stop: Stop
) -> SessionResult:
    """Open runs at all curators and train."""
    recipe = load_recipe(given.arguments.recipe, read_overrides(given.arguments))
    check_device(recipe.session.device, RecipeError)  # before a release is charged
    check_no_run(options.out)
    combine = given.config.combine
    if combine is None:
        combine = Combine.MEAN if recipe.mechanism.pays_per_step else Combine.SUM
    with _setup(given, recipe, progress).new(combine) as federation:
        if combine is not Combine.SUM:
            return run_session(federation, recipe, options, progress, stop)
        release_sum(federation, recipe, options.out, progress)
    return train_offline(
        embedding_file(options.out), recipe, options, progress, stop
    )  # no curator is needed any more


def _resume(
    given: FederationCommand, options: SessionOptions, progress: Progress, stop: Stop
) -> SessionResult:
    overrides = read_overrides(given.arguments)
    _, manifest = checkpoint_store(options.out).load()
    saved = FederationFolder(options.out).load()
    if saved.combine is Combine.SUM:
        members_again(given.config, saved)
        file = embedding_file(options.out)
        return resume_offline(file, overrides, options, progress, stop)
    recipe = recipe_of(manifest, options.out, overrides)
    with _setup(given, recipe, progress).resumed(manifest) as federation:
        return resume_session(federation, overrides, options, progress, stop)


def _setup(given: FederationCommand, recipe: Recipe, progress: Progress) -> FederationSetup:
    return FederationSetup(
        config=given.config,
        connect=given.connect,
        folder=FederationFolder(given.arguments.out),
        parameters=recipe.mechanism.parameters,
        patience_s=recipe.session.retry_for_s,
        say=progress.say,
    )
