"""`analyst embedding`: fetch a release once, and train on it without a curator."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from analyst.cli.access import Access, positive
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import Group, argument, flag, option
from analyst.cli.recipe_options import RecipeCommand, RecipeOptions
from analyst.cli.train import GeneratorStart
from analyst.new_file import check_output

if TYPE_CHECKING:
    from analyst.embedding.sessions import ReleasingCurator

app = typer.Typer(
    name="embedding", cls=Group, help="Fetch a release once, and train on it offline."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """A run that released already, or a recipe for one."""

    run: str | None = option("Of a run of yours; costs nothing.", "RUN_ID")
    recipe: str | None = option("Open a run for it; the release is charged.", "NAME|FILE.toml")

    def __post_init__(self) -> None:
        """Check that it is one of the two.

        Raises:
            ValueError: If it is not.
        """
        if (self.run is None) == (self.recipe is None):
            message = "give either --run RUN_ID or --recipe NAME"
            raise ValueError(message)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What is written, and where."""

    out: Path = option("Where to write it.", "FILE.safetensors", needed=True)
    network: Path | None = option(
        "The public network that the run names, to be kept with the release.", "FILE.safetensors"
    )
    force: bool = flag("--force", "Replace an existing file.")


@command(
    app,
    "embedding download --curator localhost:50051 --credentials alice.credentials.json \\\n"
    "      --recipe embedding-digits --out digits.safetensors",
    kind=RecipeCommand,
)
def download(
    task: Task,
    *,
    released: Released,
    kept: Kept,
    access: Access,
    options: RecipeOptions,
) -> None:
    """Fetch the one release of a run into a file."""
    from analyst.embedding.sessions import checked_network, open_for_release
    from analyst.embedding.sessions import download as fetch
    from analyst.recipes import load_recipe
    from analyst.training.progress import Progress

    out, network = kept.out, kept.network
    check_output(out, force=kept.force)  # before anything is charged
    progress = Progress(sys.stderr, quiet=task.screen.quiet)
    recipe = None
    if released.recipe is not None:
        recipe = load_recipe(released.recipe, options.overrides())
        if network is not None:
            checked_network(network, dict(recipe.mechanism))
    with task.connect(access.one()) as barrier:
        run_id = released.run
        if recipe is not None:
            run_id = open_for_release(barrier, recipe, progress)
        releasing = cast("ReleasingCurator", barrier)
        embedding = fetch(releasing, str(run_id), out, network=network, force=kept.force)
    classes, width = embedding.sums_KR.shape
    progress.say(f"wrote {width - 1:,} features of {classes} classes to {out}")
    task.screen.answer({"run_id": run_id, "num_features": width - 1, "out": str(out)})


@command(
    app,
    "embedding train digits.safetensors --recipe embedding-digits --out runs/offline",
    kind=RecipeCommand,
)
def train(
    task: Task,
    *,
    embedding: Path = argument("FILE.safetensors", "From 'embedding download'."),
    start: GeneratorStart,
    recipe: RecipeOptions,
) -> ExitCode:
    """Train on a fetched release without a curator; free."""
    from analyst.embedding.sessions import resume_offline, train_offline
    from analyst.recipes import load_recipe
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    quiet = task.screen.quiet
    with task.training(start.out, resume=start.resume), stop_on_signals(quiet=quiet) as stop:
        overrides = recipe.overrides()
        options = start.options()
        progress = Progress(sys.stderr, quiet=quiet)
        if start.recipe is None:
            result = resume_offline(embedding, overrides, options, progress, stop)
        else:
            loaded = load_recipe(start.recipe, overrides)
            result = train_offline(embedding, loaded, options, progress, stop)
    completed = result.outcome is Outcome.COMPLETED
    how = "finished" if completed else "stopped; add --resume to go on"
    progress.say(f"{how}: {result.num_updates:,} updates in {start.out}")
    task.screen.answer(
        {
            "outcome": result.outcome.value,
            "num_updates": result.num_updates,
            "out": str(start.out),
        }
    )
    return ExitCode.OK if completed else ExitCode.INTERRUPTED


@command(app, "embedding classify statistics.safetensors --test mnist.npz", reads=True)
def classify(
    task: Task,
    *,
    embedding: Path = argument("FILE.safetensors", "From 'embedding download', with --network."),
    test: Path = option("Labelled images to classify.", "FILE.npz", needed=True),
    ridge: float = option(
        "Added to each variance, times their mean [0.3].", "SHARE", default=0.3, callback=positive
    ),
) -> None:
    """Classify images by the Gaussians that statistics of public features are; free."""
    from analyst.adaptation.public_images import accuracy, read_public
    from analyst.embedding.file import load_embedding
    from analyst.embedding.gaussians import ClassGaussians

    saved = load_embedding(embedding)
    gaussians = ClassGaussians.of(saved, ridge)
    images = read_public(test, saved.shape, part="test")
    share = accuracy(gaussians.classifier(), images)
    task.screen.show(
        f"{100 * share:.2f}% of {len(images.labels_N):,} images are classified rightly"
    )
    task.screen.answer({"accuracy": share, "count": len(images.labels_N)})
