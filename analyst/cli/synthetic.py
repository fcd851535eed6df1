"""`analyst sample` and `export`: what is made of a trained generator; no curator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from analyst.cli.command import Task, command
from analyst.cli.options import argument, flag, option
from analyst.errors import ImageFileError
from analyst.evaluation.choices import Format
from analyst.new_file import check_output

app = typer.Typer()

Force = Annotated[bool, flag("--force", "Replace an existing file.")]
Unused = Annotated[str | None, option("", hidden=True)]
"""Taken as everywhere else, though sampling asks no curator."""


@command(app, "sample --out-of runs/digits --count 1000 --out synthetic.npz")
def sample(  # noqa: PLR0913 - one parameter an option
    task: Task,
    *,
    out_of: Path = option("The run.", "RUN_DIR", needed=True),
    count: int = option("How many images.", "N", min=1, needed=True),
    out: Path = option("Where to write them.", "FILE.npz|FILE.png", needed=True),
    force: Force = False,
    seed: int = option("Of labels and latents.", "N", default=0),
    weights: Literal["ema", "generator"] = option("Averaged or last weights.", default="ema"),
    step: int | None = option("Updates of a kept checkpoint [the newest].", "N", min=0),
    augment: float = option(
        "Turn, shear, scale, shift and thicken images at random, from 0 to 1.",
        "DEGREE",
        default=0.0,
        min=0,
        max=1,
    ),
    curator: Unused,  # noqa: ARG001
    credentials: Unused,  # noqa: ARG001
) -> None:
    """Images from a run's newest checkpoint, or an earlier one that was kept; free.

    Raises:
        ImageFileError: If the name is of another format.
    """
    if out.suffix not in {".npz", ".png"}:
        message = f"cannot write {out}"
        raise ImageFileError(message, "Give a name that ends in .npz or .png.")
    from analyst.evaluation.augment import augmented
    from analyst.evaluation.image_file import save_images
    from analyst.evaluation.sample import sample_run
    from analyst.training.grid import is_drawable, save_grid

    check_output(out, force=force)
    data = sample_run(out_of, count, seed=seed, weights=weights, step=step)
    data = augmented(data, augment, seed=seed)
    channels = data.images.shape[1]
    if out.suffix == ".png" and not is_drawable(channels):
        message = f"images of {channels} channels are no picture"
        raise ImageFileError(message, "Give a name that ends in .npz.")
    if out.suffix == ".npz":
        save_images(out, data, force=force)
    else:
        order = data.labels.argsort(kind="stable")
        columns = -(-count // len(set(data.labels.tolist())))
        save_grid(out, data.images[order], columns, force=force)
    _say_wrote(task, count, out)


@command(app, "export synthetic.npz --format folder --out synthetic")
def export(
    task: Task,
    *,
    synthetic: Path = argument("SYNTHETIC.npz", "What to export."),
    form: Format = option("What other programs read.", None, "--format", needed=True),
    out: Path = option("File or directory.", "PATH", needed=True),
    force: bool = flag(
        "--force", "Replace an existing .npz file; a directory must be new or empty."
    ),
) -> None:
    """A synthetic set as NPZ, image folder or IDX."""
    from analyst.evaluation.export import export_images
    from analyst.evaluation.image_file import load_images

    if form == "npz":
        check_output(out, force=force)  # the others take an empty folder only
    data = load_images(synthetic, part="train")
    export_images(data, form, out, force=force)
    _say_wrote(task, len(data.labels), out)


def _say_wrote(task: Task, count: int, out: Path) -> None:
    task.screen.say(f"wrote {count:,} images to {out}")
    task.screen.answer({"num_images": count, "out": str(out)})
