"""Whom an adaptation asks: one curator, or several with private targets of one shape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from analyst.adaptation.config import AdaptationRecipe
from analyst.errors import FederationError
from analyst.training.checkpoint import Manifest
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.connecting import ConnectMember, Say
from analyst.training.federation.folder import FederationFolder, check_one_run
from analyst.training.federation.rounds import Combine
from analyst.training.federation.setup import FederationSetup
from analyst.training.run_source import Curator, FeatureRun, RunSource

Reach = Callable[
    [AdaptationRecipe, Manifest | None, Say], AbstractContextManager[RunSource[FeatureRun]]
]
"""Reaches them for a recipe, for a run that goes on if there is a manifest, and says problems."""


def one_curator(connect: Callable[[], AbstractContextManager[Curator]], out: Path) -> Reach:
    """Return how one curator is reached."""

    def reach(
        recipe: AdaptationRecipe, manifest: Manifest | None, say: Say
    ) -> AbstractContextManager[RunSource[FeatureRun]]:
        del recipe, manifest, say
        check_one_run(out)
        return connect()

    return reach


def several_curators(config: FederationConfig, connect: ConnectMember, out: Path) -> Reach:
    """Return how several curators are reached."""

    def reach(
        recipe: AdaptationRecipe, manifest: Manifest | None, say: Say
    ) -> AbstractContextManager[RunSource[FeatureRun]]:
        setup = FederationSetup(
            config=config,
            connect=connect,
            folder=FederationFolder(out),
            parameters=recipe.mechanism.parameters,
            patience_s=recipe.session.retry_for_s,
            say=say,
        )
        if manifest is not None:
            return setup.resumed(manifest)
        if config.combine is Combine.SUM:
            message = f"{recipe.mechanism.kind} pays for every step and has no release to add"
            raise FederationError(message, "Choose --combine mean or round-robin.")
        return setup.new(config.combine or Combine.MEAN)

    return reach
