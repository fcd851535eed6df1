"""One session of a training run with several curators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analyst.device import check_device
from analyst.embedding.sessions import resume_offline, train_offline
from analyst.errors import RecipeError
from analyst.recipes import Recipe, load_recipe
from analyst.training.checkpoint import check_no_run, checkpoint_store
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.connecting import ConnectMember
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.rounds import Combine
from analyst.training.federation.setup import FederationSetup, members_again
from analyst.training.federation.sum_of_releases import embedding_file, release_sum
from analyst.training.loop import Stop
from analyst.training.progress import Progress
from analyst.training.session import (
    SessionOptions,
    SessionResult,
    recipe_of,
    resume_session,
    run_session,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """What one session with several curators is given."""

    recipe: str | None  # None goes on with the run there
    overrides: dict[str, Any]
    options: SessionOptions
    config: FederationConfig
    connect: ConnectMember
    progress: Progress
    stop: Stop


def train_together(given: Together) -> SessionResult:
    """Open runs at all curators, or resume them, and train."""
    if given.recipe is None:
        return _resume(given)
    return _start(given, load_recipe(given.recipe, given.overrides))


def _start(given: Together, recipe: Recipe) -> SessionResult:
    """Open runs at all curators and train."""
    options, progress = given.options, given.progress
    check_device(recipe.session.device, RecipeError)  # before a release is charged
    check_no_run(options.out)
    combine = given.config.combine
    if combine is None:
        combine = Combine.MEAN if recipe.mechanism.pays_per_step else Combine.SUM
    with _setup(given, recipe).new(combine) as federation:
        if combine is not Combine.SUM:
            return run_session(federation, recipe, options, progress, given.stop)
        release_sum(federation, recipe, options.out, progress)
    return train_offline(
        embedding_file(options.out), recipe, options, progress, given.stop
    )  # no curator is needed any more


def _resume(given: Together) -> SessionResult:
    options, overrides, progress = given.options, given.overrides, given.progress
    _, manifest = checkpoint_store(options.out).load()
    saved = FederationFolder(options.out).load()
    if saved.combine is Combine.SUM:
        members_again(given.config, saved)
        file = embedding_file(options.out)
        return resume_offline(file, overrides, options, progress, given.stop)
    recipe = recipe_of(manifest, options.out, overrides)
    with _setup(given, recipe).resumed(manifest) as federation:
        return resume_session(federation, overrides, options, progress, given.stop)


def _setup(given: Together, recipe: Recipe) -> FederationSetup:
    return FederationSetup(
        config=given.config,
        connect=given.connect,
        folder=FederationFolder(given.options.out),
        parameters=recipe.mechanism.parameters,
        patience_s=recipe.session.retry_for_s,
        say=given.progress.say,
    )
