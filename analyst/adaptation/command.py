"""`analyst adapt train` and `analyst adapt test`."""

from __future__ import annotations

import argparse
import sys

from analyst.adaptation.accuracy import accuracy
from analyst.adaptation.curators import Reach
from analyst.adaptation.load import load_adaptation
from analyst.adaptation.session import (
    AdaptationOptions,
    load_adapted,
    recipe_of,
    resume_adaptation,
    start_adaptation,
)
from analyst.adaptation.source import read_public
from analyst.errors import RecipeError
from analyst.recipes.flags import read_overrides
from analyst.screen import Screen
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from analyst.training.stop import stop_on_signals


def run_adaptation(arguments: argparse.Namespace, reach: Reach, screen: Screen) -> bool:
    """Adapt, or go on.

    Returns:
        Whether the run is complete.

    Raises:
        RecipeError: If a resumed run is given another recipe.
    """
    overrides = read_overrides(arguments)
    if arguments.resume and overrides:
        message = "a resumed run keeps its recipe"
        raise RecipeError(message, "Leave --set out; or start a new run.")
    progress = Progress(sys.stderr, quiet=screen.quiet)
    if arguments.resume:
        _, manifest = checkpoint_store(arguments.out).load()
        recipe = recipe_of(manifest, arguments.out)
    else:
        manifest, recipe = None, load_adaptation(arguments.recipe, overrides)
    with (
        reach(recipe, manifest, progress.say) as barrier,
        stop_on_signals(quiet=screen.quiet) as stop,
    ):
        options = AdaptationOptions(
            out=arguments.out, source=arguments.source, progress=progress, stop=stop
        )
        if arguments.resume:
            outcome = resume_adaptation(barrier, options)
        else:
            outcome = start_adaptation(barrier, recipe, options)
    completed = outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: the classifier is in {arguments.out}")
    screen.answer({"outcome": outcome.value, "out": str(arguments.out)})
    return completed


def run_adaptation_test(arguments: argparse.Namespace, screen: Screen) -> None:
    """Measure an adapted classifier on public images."""
    model, shape = load_adapted(arguments.run)
    test = read_public(arguments.test, shape, part=arguments.part)
    share, count = accuracy(model, test), len(test.labels_N)
    screen.show(f"accuracy {100 * share:.2f}% on {count:,} images")
    screen.answer({"accuracy": share, "num_images": count})
