"""One session of a training run with several curators.

Where each releases its own embedding once, the sums of all are added: class sums and class counts
are added before they are divided, so a class that a curator does not have costs nothing but its
noise. Adding what was released is post-processing. All later steps are the analyst's own: no
curator is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from analyst.embedding.file import SavedEmbedding, save_embedding
from analyst.embedding.sessions import ReleasingCurator, resume_offline, train_offline
from analyst.errors import AnalystError, EmbeddingError, FederationError, RecipeError
from analyst.recipes import Recipe, load_recipe
from analyst.training.checkpoint import check_no_run, checkpoint_store
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.federation import Federation
from analyst.training.federation.folder import FederationFolder
from analyst.training.federation.members import ConnectMember, Member
from analyst.training.federation.rounds import Combine, OnLoss
from analyst.training.federation.setup import FederationSetup, members_again
from analyst.training.loop import Stop
from analyst.training.progress import Progress
from analyst.training.session import (
    SessionOptions,
    SessionResult,
    first_state,
    recipe_of,
    resume_session,
    run_session,
)

if TYPE_CHECKING:
    from analyst.client.codec import DownloadedRelease


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
    """Open runs at all curators and train.

    Raises:
        RecipeError: If steps of several curators are to be on their way at once.
    """
    options, progress = given.options, given.progress
    check_no_run(options.out)
    if recipe.training.depth > 1:
        message = "training.depth is of one curator; several are asked one step at a time"
        raise RecipeError(message, "Add --depth 1.")
    combine = given.config.combine
    if combine is None:
        combine = Combine.MEAN if recipe.mechanism.pays_per_step else Combine.SUM
    with _setup(given, recipe).new(combine) as federation:
        if combine is not Combine.SUM:
            return run_session(federation, recipe, options, progress, given.stop)
        facts = federation.describe(recipe.training.dataset)
        first_state(recipe, facts.image(), options)  # what does not fit costs no release
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


def embedding_file(out: Path) -> Path:
    """Return where the summed embedding of an output directory lies."""
    return out / "embedding.safetensors"


def release_sum(
    federation: Federation, recipe: Recipe, out: Path, progress: Progress
) -> SavedEmbedding:
    """Have every curator release its embedding, add them, and keep the sum beside the generator.

    Args:
        federation: All curators.
        recipe: Names the parameters of the release, which is charged here.
        out: Output directory.
        progress: Told the runs, so that their releases can be fetched again.

    Raises:
        FederationError: If the recipe's mechanism has no release to add.
        EmbeddingError: If the directory holds a sum already.
        AnalystError: As a curator refused to open its run.
    """
    mechanism, path = recipe.mechanism, embedding_file(out)
    if mechanism.pays_per_step:
        message = f"{mechanism.kind} pays for every step and has no release to add"
        raise FederationError(message, "Choose --combine mean or round-robin.")
    if mechanism.kind == "dp-merf-ae":
        message = "every curator has an encoder of its own, so sums of codes' features do not add"
        raise FederationError(message, "Choose a recipe of mean-embedding.")
    if path.exists():
        message = f"{path} exists already"
        raise EmbeddingError(
            message, f"Train on it for free: analyst embedding train {quote(str(path))}"
        )
    facts = federation.describe(recipe.training.dataset)
    try:
        run = federation.open_run(facts.name, mechanism.wire_name, {}, num_steps=1)
    except AnalystError:
        for member in federation.members:
            if member.run is not None:
                progress.say(
                    f"the release of run {member.run_id} at {member.name} is charged; "
                    "'analyst embedding download --run' fetches it"
                )
        raise
    progress.say(f"runs {run.run_id} are charged; each release may be fetched at any time")
    releases = _download(federation, progress)
    embedding = SavedEmbedding(
        run_id=run.run_id,
        dataset=facts.to_dict() | {"name": recipe.training.dataset},
        parameters=_common_parameters(releases),
        sums_KR=add_releases(releases),
    )
    save_embedding(path, embedding)
    run.close()
    return embedding


def add_releases(releases: list[tuple[Member, DownloadedRelease]]) -> Tensor:
    """Return the sums of all releases by the public weights of their curators.

    Args:
        releases: At least one, with its curator.
    """
    total = releases[0][1].values * releases[0][0].config.weight
    for member, release in releases[1:]:
        total = total + release.values * member.config.weight
    return total


def _download(federation: Federation, progress: Progress) -> list[tuple[Member, DownloadedRelease]]:
    """Fetch every release; under `continue` a curator that fails now is left out.

    Raises:
        AnalystError: If a loss stops all.
        FederationError: If no release is left.
    """
    releases: list[tuple[Member, DownloadedRelease]] = []
    for member in federation.members:
        if member.run is None or member.barrier is None:
            continue
        try:
            barrier = cast("ReleasingCurator", member.barrier)
            releases.append((member, barrier.download_release(member.run_id)))
        except AnalystError as error:
            progress.say(f"curator {member.name}: {error.message}")
            if federation.rule.on_loss is OnLoss.STOP:
                raise
            member.problem = error
    if not releases:
        message = "no curator handed its release out"
        raise FederationError(message, "Fetch each with 'analyst embedding download --run ID'.")
    return releases


def _common_parameters(releases: list[tuple[Member, DownloadedRelease]]) -> dict[str, Any]:
    """Return the parameters of all releases.

    Raises:
        FederationError: If they differ, so that their sums mean different things.
    """
    first, release = releases[0]
    for member, other in releases[1:]:
        if other.parameters != release.parameters:
            message = f"the releases of {first.name} and {member.name} have other parameters"
            raise FederationError(message, "Train on each alone with 'analyst embedding train'.")
    return release.parameters
