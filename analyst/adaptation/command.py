"""`analyst adapt train` and `analyst adapt test`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import cast

from analyst.adaptation.accuracy import accuracy
from analyst.adaptation.load import load_adaptation
from analyst.adaptation.session import (
    FeatureBarrierPort,
    Sitting,
    load_adapted,
    resume_adaptation,
    start_adaptation,
)
from analyst.adaptation.source import read_public
from analyst.recipes.errors import RecipeError
from analyst.recipes.flags import read_overrides
from analyst.screen import Screen
from analyst.training.loop import Outcome
from analyst.training.ports import BarrierPort
from analyst.training.progress import Progress
from analyst.training.stop import stop_on_signals


def run_adaptation(
    arguments: argparse.Namespace,
    connect: Callable[[], AbstractContextManager[BarrierPort]],
    screen: Screen,
) -> bool:
    """Adapt, or go on.

    Args:
        arguments: Of the command line.
        connect: Reaches the curator.
        screen: Takes the answer.

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
    with connect() as barrier, stop_on_signals(progress.say) as stop:
        sitting = Sitting(out=arguments.out, source=arguments.source, progress=progress, stop=stop)
        port = cast("FeatureBarrierPort", barrier)
        if arguments.resume:
            outcome = resume_adaptation(port, sitting)
        else:
            recipe = load_adaptation(arguments.recipe, overrides)
            outcome = start_adaptation(port, recipe, sitting)
    completed = outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: the classifier is in {arguments.out}")
    screen.answer({"outcome": outcome.value, "out": str(arguments.out)})
    return completed


def run_adaptation_test(arguments: argparse.Namespace, screen: Screen) -> None:
    """Measure an adapted classifier on public images.

    Args:
        arguments: Of the command line.
        screen: Takes the answer.
    """
    model, shape = load_adapted(arguments.run)
    test = read_public(arguments.test, shape, part=arguments.part)
    share, count = accuracy(model, test), len(test.labels_N)
    screen.show(f"accuracy {100 * share:.2f}% on {count:,} images")
    screen.answer({"accuracy": share, "num_images": count})
