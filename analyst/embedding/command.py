"""`analyst embedding download` and `analyst embedding train`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

from analyst.embedding.sessions import (
    ReleasingCurator,
    download,
    open_for_release,
    resume_offline,
    train_offline,
)
from analyst.new_file import check_output
from analyst.recipes import load_recipe
from analyst.recipes.flags import read_overrides
from analyst.screen import Screen
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.run_source import Curator
from analyst.training.session import SessionOptions
from analyst.training.stop import stop_on_signals


def run_download(
    arguments: argparse.Namespace,
    connect: Callable[[], AbstractContextManager[Curator]],
    screen: Screen,
) -> None:
    """Fetch a release, opening a run for it if a recipe is given."""
    check_output(arguments.out, force=arguments.force)  # before anything is charged
    progress = Progress(sys.stderr, quiet=screen.quiet)
    with connect() as barrier:
        run_id = arguments.run
        if run_id is None:
            recipe = load_recipe(arguments.recipe, read_overrides(arguments))
            run_id = open_for_release(barrier, recipe, progress)
        embedding = download(
            cast("ReleasingCurator", barrier), run_id, arguments.out, force=arguments.force
        )
    classes, width = embedding.sums_KR.shape
    progress.say(f"wrote {width - 1:,} features of {classes} classes to {arguments.out}")
    screen.answer({"run_id": run_id, "num_features": width - 1, "out": str(arguments.out)})


def run_offline_training(arguments: argparse.Namespace, screen: Screen) -> bool:
    """Train on a saved embedding.

    Returns:
        Whether the run is complete.
    """
    overrides = read_overrides(arguments)
    options = SessionOptions(out=arguments.out, start_from=arguments.start_from)
    progress = Progress(sys.stderr, quiet=screen.quiet)
    with stop_on_signals(quiet=screen.quiet) as stop:
        if arguments.resume:
            result = resume_offline(arguments.embedding, overrides, options, progress, stop)
        else:
            recipe = load_recipe(arguments.recipe, overrides)
            result = train_offline(arguments.embedding, recipe, options, progress, stop)
    completed = result.outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: {result.num_updates:,} updates in {arguments.out}")
    screen.answer(
        {
            "outcome": result.outcome.value,
            "num_updates": result.num_updates,
            "out": str(arguments.out),
        }
    )
    return completed
