"""One sitting of a training run with several curators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analyst.device import check_device
from analyst.embedding.sessions import resume_offline, train_offline
from analyst.recipes import Recipe, RecipeError, load_recipe, recipe_from_dict
from analyst.recipes.load import with_session
from analyst.training.checkpoint import CheckpointError
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.connecting import ConnectMember
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.gathering import Gathering, members_again
from analyst.training.federation.rule import Combine
from analyst.training.federation.summed import embedding_file, release_sum
from analyst.training.loop import Stop
from analyst.training.outputs import checkpoint_store
from analyst.training.progress import Progress
from analyst.training.session import SessionOptions, SessionResult, resume_session, run_session


@dataclass(frozen=True, kw_only=True, slots=True)
class Sitting:
    """What one sitting with several curators is given."""

    recipe: str | None  # None goes on with the run there
    overrides: dict[str, Any]
    options: SessionOptions
    config: FederationConfig
    connect: ConnectMember
    progress: Progress
    stop: Stop


def train_together(sitting: Sitting) -> SessionResult:
    """Open runs at all curators, or resume them, and train.

    Args:
        sitting: What to do, and where.

    Returns:
        How it ended.
    """
    if sitting.recipe is None:
        return _resume(sitting)
    return _start(sitting, load_recipe(sitting.recipe, sitting.overrides))


def _start(sitting: Sitting, recipe: Recipe) -> SessionResult:
    """Open runs at all curators and train.

    Raises:
        CheckpointError: If the output directory already holds a run.
    """
    options, progress = sitting.options, sitting.progress
    check_device(recipe.session.device, RecipeError)  # before a release is charged
    if checkpoint_store(options.out).exists():
        message = f"{options.out} already holds a run"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")
    combine = sitting.config.combine
    if combine is None:
        combine = Combine.MEAN if recipe.mechanism.pays_per_step else Combine.SUM
    with _gathering(sitting, recipe).anew(combine) as federation:
        if combine is not Combine.SUM:
            return run_session(federation, recipe, options, progress, sitting.stop)
        release_sum(federation, recipe, options.out, progress)
    return train_offline(
        embedding_file(options.out), recipe, options, progress, sitting.stop
    )  # no curator is needed any more


def _resume(sitting: Sitting) -> SessionResult:
    options, progress = sitting.options, sitting.progress
    overrides = sitting.overrides
    _, manifest = checkpoint_store(options.out).load()
    saved = FederationFolder(options.out).load()
    if saved.combine is Combine.SUM:
        members_again(sitting.config, saved)
        file = embedding_file(options.out)
        return resume_offline(file, overrides, options, progress, sitting.stop)
    origin = f"the recipe in {options.out}"
    recipe = with_session(
        recipe_from_dict(manifest.recipe, origin=origin), overrides, origin=origin
    )
    with _gathering(sitting, recipe).again(manifest) as federation:
        return resume_session(federation, overrides, options, progress, sitting.stop)


def _gathering(sitting: Sitting, recipe: Recipe) -> Gathering:
    return Gathering(
        config=sitting.config,
        connect=sitting.connect,
        folder=FederationFolder(sitting.options.out),
        parameters=recipe.mechanism.parameters,
        patience_s=recipe.session.retry_for_s,
        say=sitting.progress.say,
    )
