"""`analyst adapt`: a classifier of public images, moved to a private set without labels."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

import typer

from analyst.cli.access import Access, RuleOptions
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import Group, argument, option
from analyst.cli.recipe_options import Assignments
from analyst.cli.train import Start

if TYPE_CHECKING:
    from torch import nn

    from analyst.generators.generator import ImageShape

app = typer.Typer(
    name="adapt",
    cls=Group,
    help="Move a classifier of public images to a private set without labels.",
)

_EXAMPLE = "--recipe mnist-to-usps --source mnist.npz --out runs/usps"


@command(
    app,
    "adapt train --curator localhost:50051 --credentials alice.credentials.json \\\n"
    f"      {_EXAMPLE}",
    f"adapt train --federation hospitals.toml --on-loss continue \\\n      {_EXAMPLE}",
)
def train(
    task: Task,
    *,
    start: Start,
    source: Path = option("Labelled public images.", "FILE.npz", needed=True),
    access: Access,
    rule: RuleOptions,
    assignments: Assignments,
) -> ExitCode:
    """Train on labelled public images, drawn to a private set without labels."""
    folders = f"--source {quote(str(source))} --resume --out {quote(str(start.out))}"
    again = f"adapt train {folders} {access.words(rule)}"
    with task.training(start.out, resume=start.resume, again=again):
        return _adapt(task, start, source, access, rule, assignments or [])


def _adapt(
    task: Task,
    start: Start,
    source: Path,
    access: Access,
    rule: RuleOptions,
    assignments: list[str],
) -> ExitCode:
    """Adapt, or go on.

    Raises:
        RecipeError: If a resumed run is given another recipe.
    """
    from analyst.adaptation.recipe import load_adaptation
    from analyst.adaptation.session import (
        AdaptationOptions,
        one_curator,
        recipe_of,
        resume_adaptation,
        several_curators,
        start_adaptation,
    )
    from analyst.errors import RecipeError
    from analyst.recipes.assignments import read_assignments
    from analyst.training.checkpoint import checkpoint_store
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    several = access.several(rule)
    if several is None:
        reach = one_curator(lambda: task.connect(access.one()), start.out)
    else:
        reach = several_curators(several, lambda one: task.connect(access.member(one)), start.out)
    overrides = read_assignments(assignments)
    if start.resume and overrides:
        message = "a resumed run keeps its recipe"
        raise RecipeError(message, "Leave --set out; or start a new run.")
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    if start.recipe is None:
        _, manifest = checkpoint_store(start.out).load()
        recipe = recipe_of(manifest, start.out)
    else:
        manifest, recipe = None, load_adaptation(start.recipe, overrides)
    with (
        reach(recipe, manifest, progress.say) as barrier,
        stop_on_signals(quiet=task.screen.quiet) as stop,
    ):
        options = AdaptationOptions(out=start.out, source=source, progress=progress, stop=stop)
        if start.resume:
            outcome = resume_adaptation(barrier, options)
        else:
            outcome = start_adaptation(barrier, recipe, options)
    completed = outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: the classifier is in {start.out}")
    task.screen.answer({"outcome": outcome.value, "out": str(start.out)})
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


@command(app, "adapt test runs/usps --test public-test.npz", name="test", reads=True)
def measure(
    task: Task,
    *,
    run: Path = argument("RUN_DIR", "Of 'adapt train'."),
    test_file: Path = option("Labelled public images.", "FILE.npz", "--test", needed=True),
    part: Literal["train", "test"] = option("Of a file with both parts.", default="test"),
) -> None:
    """The accuracy of an adapted classifier on labelled public images; free."""
    from analyst.adaptation.session import load_adapted

    say_accuracy(task, load_adapted(run), test_file, part)


def say_accuracy(
    task: Task,
    classifier: tuple[nn.Module, ImageShape],
    test_file: Path,
    part: Literal["train", "test"],
) -> None:
    """Say how often a classifier is right on labelled public images.

    Args:
        task: Where it is said.
        classifier: With the shape of the images that it takes.
        test_file: The images.
        part: Of a file with both parts.
    """
    from analyst.adaptation.public_images import accuracy, read_public

    model, shape = classifier
    images = read_public(test_file, shape, part=part)
    share, count = accuracy(model, images), len(images.labels_N)
    task.screen.show(f"accuracy {100 * share:.2f}% on {count:,} images")
    task.screen.answer({"accuracy": share, "num_images": count})
