"""One embedding of several curators: each releases its own once, and the sums of all are added.

Class sums and class counts are added before they are divided, so a class that a curator does not
have costs nothing but its noise. Adding what was released is post-processing. All later steps are
the analyst's own: no curator is asked again.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from analyst.embedding.file import SavedEmbedding, save_embedding
from analyst.embedding.sessions import ReleasingCurator
from analyst.errors import AnalystError, EmbeddingError, FederationError
from analyst.recipes import Recipe
from analyst.training.federation.federation import Federation
from analyst.training.federation.member import Member
from analyst.training.federation.rounds import OnLoss
from analyst.training.progress import Progress

if TYPE_CHECKING:
    from analyst.client.release import DownloadedRelease


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
